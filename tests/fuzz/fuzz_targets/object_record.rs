//! See `check_object_record`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_object_record(input));

#[cfg(not(fuzzing))]
fn main() {}
