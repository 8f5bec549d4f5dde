//! How often an operation is tried again.

use std::time::Duration;

use syncguard_core::authoring::RetryPauses;
use syncguard_core::authoring::{Attempts, FailureSubject, Fault, Retries};
use syncguard_core::{ErrorCode, Jitter, LockError};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
const RETRIES: Retries = Retries {
    conflicts: 3,
    failures: u32::MAX,
    silences: 0,
    pauses: RetryPauses { first: MILLI, longest: MILLI, jitter: Jitter::None },
};

fn failure(subject: FailureSubject) -> Fault {
    Fault::new(LockError::new(ErrorCode::ServiceUnavailable, "x"), subject)
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_fault_is_counted() {
    let mut attempts = Attempts::new(RETRIES, SECOND, SECOND * 10);
    for _ in 0..3 {
        attempts.again(Fault::conflict()).await.unwrap();
    }
    assert!(!attempts.again(Fault::conflict()).await.unwrap_err().is_outcome_unknown());
    attempts.again(failure(FailureSubject::Server)).await.unwrap();
    assert!(attempts.again(Fault::timed_out(true)).await.unwrap_err().is_outcome_unknown());
    assert!(!attempts.again(Fault::timed_out(false)).await.unwrap_err().is_outcome_unknown());
    assert!(attempts.again(failure(FailureSubject::Request)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lost_write_is_not_forgotten_until_the_time_is_over() {
    let (mut attempts, began) = (Attempts::new(RETRIES, SECOND, SECOND * 5), Instant::now());
    let mut lost = failure(FailureSubject::Connection);
    lost.error = lost.error.with_unknown_outcome();
    attempts.again(lost).await.unwrap();
    let error = loop {
        if let Err(error) = attempts.again(failure(FailureSubject::Server)).await {
            break error;
        }
    };
    assert!(began.elapsed() > SECOND * 4 && began.elapsed() < SECOND * 5);
    assert!(attempts.attempt().lost.is_some() && error.is_outcome_unknown());
    assert!(Attempts::new(RETRIES, SECOND, MILLI).again(Fault::conflict()).await.is_err());
}
