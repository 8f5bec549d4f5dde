//! See `check_postgres_row`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_postgres_row(input));

#[cfg(not(fuzzing))]
fn main() {}
