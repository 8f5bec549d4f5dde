//! Any bad URL is refused with an error, and its password stays out of the error.

use proptest::prelude::*;
use syncguard::{ErrorCode, connect};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// The last parameter is unknown to every store, so nothing is ever connected.
    #[test]
    fn no_url_panics_or_shows_its_password(
        scheme in "memory|redis|rediss|redis-cluster|redis-sentinel|postgres|postgresql|etcd|etcds|firestore|s3|az|gs|sqlite|[a-z]{0,5}",
        around in "[ -~]{0,3}|\\PC{0,2}",
        rest in "[ -~]{0,12}|\\PC{0,5}",
    ) {
        let secret = "Xq7ZkV";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for url in [
            format!("{scheme}://u:{around}{secret}{around}@h{rest}?no_such_parameter=1"),
            format!("{scheme}:{rest}{secret}?no_such_parameter=1&{around}"),
            format!("{scheme}://h?{rest}&password={secret}&no_such_parameter=1"),
        ] {
            let error = runtime.block_on(connect(&url)).unwrap_err();
            prop_assert_eq!(error.code(), ErrorCode::InvalidArgument);
            let shown = format!("{error} {error:?}");
            prop_assert!(!shown.contains(secret), "{shown}");
        }
    }
}
