//! See `check_lock_id`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| syncguard_core_fuzz::check_lock_id(text));
