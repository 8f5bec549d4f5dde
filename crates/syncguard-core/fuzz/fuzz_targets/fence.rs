//! See `check_fences`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_core_fuzz::fence(input));
