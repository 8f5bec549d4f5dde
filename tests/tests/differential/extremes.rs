//! The largest values of options, which users set to disable a timeout.

use std::time::Duration;

use syncguard::{AcquisitionOptions, ErrorCode, LockConfig, acquire, lock};
use syncguard_test_services::store::Store;

use crate::differential::stores::url;

/// 100 years, in milliseconds.
const CENTURY: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

#[tokio::test]
async fn the_longest_timeouts_and_the_most_retries_work() {
    for store in Store::ALL {
        let backend = syncguard::connect(&url(store, CENTURY)).await.unwrap();
        let patient = AcquisitionOptions::new().with_max_retries(u32::MAX);
        let century = Duration::from_millis(CENTURY);
        let waiting = |time| LockConfig::new("k").with_acquisition(patient.with_timeout(time));
        let mut guard = acquire(&backend, waiting(century)).await.unwrap();
        assert!(guard.extend(century).await.unwrap().is_extended(), "{store}");
        // Contention is what the store answers: without an answer in time the error is another one, so a busy
        // machine needs more time.
        let mut timeouts = [50, 1_000, 10_000, 60_000].into_iter().map(Duration::from_millis);
        let is_contended = async |timeout: Duration| {
            let error = lock(&backend, waiting(timeout), async |_| ()).await.unwrap_err();
            error.code() == ErrorCode::AcquisitionTimeout
        };
        while !is_contended(timeouts.next().unwrap_or_else(|| panic!("{store}"))).await {}
        assert!(guard.release().await.unwrap().is_released(), "{store}");
    }
}

#[tokio::test]
async fn longer_timeouts_are_refused() {
    for store in Store::ALL {
        for timeout in store.timeouts() {
            let [right, wrong] =
                [1000, CENTURY + 1].map(|millis| format!("&{timeout}_timeout_ms={millis}"));
            let long = url(store, 1000).replace(&right, &wrong);
            let refused = syncguard::connect(&long).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::InvalidArgument, "{store}: {timeout}");
            assert!(refused.message().contains("from 1 to 3153600000000"), "{store}: {refused}");
        }
    }
}
