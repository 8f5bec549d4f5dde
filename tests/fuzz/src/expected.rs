//! Foreign records, and the answers that they must get.

use std::time::{SystemTime, UNIX_EPOCH};

use syncguard_redis::contract::AcquireResult;
use syncguard_redis::{ErrorCode, Fence, LockError, LockInfo};

/// The kind of a record, by the rules of both libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A live lock.
    Live(Fence),
    /// A lock that is over.
    Over,
    /// Neither of both: it never counts as a free lock, and is never changed.
    Refused,
    /// The parser in the store may accept more than we do here; then it has to do so throughout.
    Unsure,
}

/// The requests and their answers, in this order.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) lookup: Result<Option<LockInfo>, LockError>,
    pub(crate) is_locked: Result<bool, LockError>,
    pub(crate) acquire: Result<AcquireResult, LockError>,
    /// True if the record has not changed.
    pub(crate) is_unchanged: bool,
}

/// Now, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or_default()
}

/// A lock with these times and this fence. Near the end of a lock the clock decides.
pub(crate) fn lock(expires_ms: u64, fence: Fence) -> Expected {
    match i128::from(expires_ms) + 1000 - i128::from(now()) {
        ..-5_000 => Expected::Over,
        5_000.. => Expected::Live(fence),
        _ => Expected::Unsure,
    }
}

impl Answers {
    /// Panics on other answers.
    pub(crate) fn check(self, expected: Expected) {
        let Self { lookup, is_locked, acquire, is_unchanged } = self;
        for error in [lookup.as_ref().err(), is_locked.as_ref().err(), acquire.as_ref().err()] {
            let code = error.map_or(ErrorCode::Internal, LockError::code);
            assert_eq!(code, ErrorCode::Internal, "{error:?}");
        }
        let is_granted = acquire.as_ref().is_ok_and(AcquireResult::is_acquired);
        match expected {
            Expected::Live(fence) => {
                // A record that names another key is shown to nobody.
                if let Ok(found) = lookup {
                    assert_eq!(found.map(|info| info.fence), Some(fence));
                }
                assert!(is_locked.unwrap() && acquire.unwrap().is_busy() && is_unchanged);
            }
            Expected::Over => {
                assert!(lookup.unwrap().is_none() && !is_locked.unwrap() && is_granted);
            }
            Expected::Refused => {
                assert!(lookup.is_err() && is_locked.is_err() && acquire.is_err());
                assert!(is_unchanged, "a foreign record was changed");
            }
            Expected::Unsure => {
                let is_free = lookup.as_ref().is_ok_and(Option::is_none);
                assert!(is_free || !is_granted, "granted, though {lookup:?}");
                assert!(is_granted || is_unchanged, "a foreign record was changed");
            }
        }
    }
}
