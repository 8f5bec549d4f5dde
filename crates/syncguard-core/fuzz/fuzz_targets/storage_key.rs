//! See `check_storage_key`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_core_fuzz::storage_key(input));

#[cfg(not(fuzzing))]
fn main() {}
