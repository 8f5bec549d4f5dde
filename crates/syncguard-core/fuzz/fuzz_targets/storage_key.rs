//! See `check_storage_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_core_fuzz::storage_key(input));
