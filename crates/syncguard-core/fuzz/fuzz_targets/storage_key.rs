//! See `check_storage_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&str, &str, u16, u8)| {
    let (prefix, key, limit, reserve) = input;
    syncguard_core_fuzz::check_storage_key(prefix, key, limit.into(), reserve.into());
});
