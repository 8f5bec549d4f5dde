//! The rules of the fuzz targets, on inputs from proptest.

use std::time::Duration;

use proptest::prelude::*;
use syncguard_core::Ttl;
use syncguard_core_fuzz::{check_fences, check_key, check_lock_id, check_storage_key};

/// Texts that change when they are normalised, and plain texts.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        3 => "[ -~]{0,8}",
        2 => "\\PC{0,4}",
        1 => Just("e\u{301}".to_owned()),
        1 => Just("\u{1100}\u{1161}\u{11a8}".to_owned()),
        1 => Just("\u{212a}\u{1e9b}\u{323}".to_owned()),
        1 => Just("\0".to_owned()),
        1 => Just("x".repeat(200)),
    ];
    proptest::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn keys(text in text()) {
        check_key(&text);
    }

    #[test]
    fn lock_ids(text in prop_oneof!["[A-Za-z0-9_-]{20,24}", "[ -~]{22}", "\\PC{0,30}"]) {
        check_lock_id(&text);
    }

    #[test]
    fn fences(one in any::<u64>(), other in 0..2_000_000_000_000_000_u64, text in "[0-9]{14,16}") {
        check_fences(one % 2_000_000_000_000_000, other, &text);
    }

    #[test]
    fn ttls(millis in 1..=Ttl::MAX.as_millis(), micros in 0..1_000_u64) {
        let ttl = Ttl::from_millis(millis).unwrap();
        prop_assert_eq!(Duration::from(ttl), Duration::from_millis(millis));
        if ttl < Ttl::MAX {
            prop_assert_eq!(Ttl::try_from(Duration::from(ttl) + Duration::from_micros(micros)).unwrap(), ttl);
        }
    }

    #[test]
    fn storage_keys(prefix in "[a-z{}:]{0,40}", key in text(), limit in 0..1_200_usize, reserve in 0..40_usize) {
        check_storage_key(&prefix, &key, limit, reserve);
    }
}
