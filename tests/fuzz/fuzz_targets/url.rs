//! See `check_url`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_url(input));
