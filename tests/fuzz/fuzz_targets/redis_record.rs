//! See `check_redis_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_redis_record(input));
