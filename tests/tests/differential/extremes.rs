//! The largest values of options, which users set to disable a timeout.

use std::time::Duration;

use syncguard::{AcquisitionOptions, ErrorCode, LockConfig, acquire, lock};

use crate::differential::stores::{NAMES, url};

/// 100 years, in milliseconds.
const CENTURY: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// The timeouts of each store, in the order of [`NAMES`].
const TIMEOUTS: [&[&str]; 5] = [
    &["dispose"],
    &["command", "connect", "dispose"],
    &["pool_wait", "statement", "connect", "dispose"],
    &["operation", "request", "connect", "dispose"],
    &["operation", "dispose"],
];

#[tokio::test]
async fn the_longest_timeouts_and_the_most_retries_work() {
    for (index, name) in NAMES.iter().enumerate() {
        let long = TIMEOUTS[index]
            .iter()
            .fold(url(index), |url, timeout| format!("{url}&{timeout}_timeout_ms={CENTURY}"));
        let backend = syncguard::connect(&long).await.unwrap();
        let patient = AcquisitionOptions::new().with_max_retries(u32::MAX);
        let century = patient.with_timeout(Duration::from_millis(CENTURY));
        let config = || LockConfig::new(format!("extreme {name}"));
        let mut guard = acquire(&backend, config().with_acquisition(century)).await.unwrap();
        assert!(
            guard.extend(Duration::from_millis(CENTURY)).await.unwrap().is_extended(),
            "{name}"
        );
        // Contention is what the store answers: without an answer in time the error is another one, so a busy
        // machine needs more time.
        let mut timeouts = [50, 1_000, 10_000, 60_000].into_iter().map(Duration::from_millis);
        let is_contended = async |timeout: Duration| {
            let config = config().with_acquisition(patient.with_timeout(timeout));
            let error = lock(&backend, config, async |_| ()).await.unwrap_err();
            error.code() == ErrorCode::AcquisitionTimeout
        };
        while !is_contended(timeouts.next().unwrap_or_else(|| panic!("{name}"))).await {}
        assert!(guard.release().await.unwrap().is_released(), "{name}");
    }
}

#[tokio::test]
async fn longer_timeouts_are_refused() {
    for (index, name) in NAMES.iter().enumerate() {
        for timeout in TIMEOUTS[index] {
            let long = format!("{}&{timeout}_timeout_ms={}", url(index), CENTURY + 1);
            let refused = syncguard::connect(&long).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::InvalidArgument, "{name}: {timeout}");
            assert!(refused.message().contains("from 1 to 3153600000000"), "{name}: {refused}");
        }
    }
}
