//! See `check_firestore_document`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| syncguard_fuzz::check_firestore_document(input));
