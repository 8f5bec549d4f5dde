//! See `check_fences`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (u64, u64, &str)| {
    let (one, other, text) = input;
    syncguard_core_fuzz::check_fences(one, other, text);
});
