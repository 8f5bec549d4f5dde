//! See `check_firestore_document`.
#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_firestore_document(input));

#[cfg(not(fuzzing))]
fn main() {}
