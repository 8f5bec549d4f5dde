//! See `check_lock_id`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_core_fuzz::lock_id(input));

#[cfg(not(fuzzing))]
fn main() {}
