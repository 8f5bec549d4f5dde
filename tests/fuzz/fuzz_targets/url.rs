//! See `check_url`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_url(input));

#[cfg(not(fuzzing))]
fn main() {}
