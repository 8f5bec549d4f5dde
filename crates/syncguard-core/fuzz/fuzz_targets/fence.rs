//! See `check_fences`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_core_fuzz::fence(input));

#[cfg(not(fuzzing))]
fn main() {}
