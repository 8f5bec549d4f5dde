//! See `check_redis_record`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_redis_record(input));

#[cfg(not(fuzzing))]
fn main() {}
