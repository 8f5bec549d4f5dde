//! What somebody else wrote, and what has to come of it.

use std::time::{SystemTime, UNIX_EPOCH};

use syncguard_redis::contract::AcquireResult;
use syncguard_redis::{ErrorCode, Fence, LockError, LockInfo};

/// What a record is, by the rules that both libraries keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A lock that is held.
    Live(Fence),
    /// A lock that is over.
    Over,
    /// None of both: it is never taken for a free lock, and never changed.
    Refused,
    /// What reads it there may be more generous than we are here: then it has to be so throughout.
    Unsure,
}

/// What was asked and answered, in this order.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) lookup: Result<Option<LockInfo>, LockError>,
    pub(crate) is_locked: Result<bool, LockError>,
    pub(crate) acquire: Result<AcquireResult, LockError>,
    /// Whether the record is as it was.
    pub(crate) is_unchanged: bool,
}

/// Now, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or_default()
}

/// A lock with these times and this fence. Close to the end of a lock the clock decides.
pub(crate) fn lock(expires_ms: u64, fence: Fence) -> Expected {
    match i128::from(expires_ms) + 1000 - i128::from(now()) {
        ..-5_000 => Expected::Over,
        5_000.. => Expected::Live(fence),
        _ => Expected::Unsure,
    }
}

impl Answers {
    /// Panics if the answers are not those.
    pub(crate) fn check(self, expected: Expected) {
        let Self { lookup, is_locked, acquire, is_unchanged } = self;
        for error in [lookup.as_ref().err(), is_locked.as_ref().err(), acquire.as_ref().err()] {
            let code = error.map_or(ErrorCode::Internal, LockError::code);
            assert_eq!(code, ErrorCode::Internal, "{error:?}");
        }
        let is_granted = acquire.as_ref().is_ok_and(AcquireResult::is_acquired);
        match expected {
            Expected::Live(fence) => {
                assert_eq!(lookup.unwrap().map(|info| info.fence), Some(fence));
                assert!(is_locked.unwrap() && acquire.unwrap().is_locked() && is_unchanged);
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
