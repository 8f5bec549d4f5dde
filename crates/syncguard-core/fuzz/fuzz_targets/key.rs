//! See `check_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| syncguard_core_fuzz::check_key(text));
