//! See `check_etcd_record`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_etcd_record(input));

#[cfg(not(fuzzing))]
fn main() {}
