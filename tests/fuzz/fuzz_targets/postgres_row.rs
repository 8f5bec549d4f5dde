//! See `check_postgres_row`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_postgres_row(input));
