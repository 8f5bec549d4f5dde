//! The minimum hold: a lock that outlives its work.

use std::time::Duration;

use crate::backend::LockBackend;
use crate::contract::liveness::TIME_TOLERANCE;
use crate::contract::request::ExtendRequest;
use crate::contract::response::{ExtendResult, ReleaseResult};
use crate::rt::{self, Instant};
use crate::value::{ErrorCode, Key, LockError, LockId, Timestamp, Ttl};

/// The minimum hold of one lock.
#[derive(Clone, Copy)]
pub(crate) struct MinHold {
    /// The lock is not free before this time.
    until: Instant,
    /// The expiry that the store reported last.
    expires_at: Timestamp,
}

impl MinHold {
    /// A hold of at least this long from now on. The time counts from the store's answer, because the store
    /// granted the lock before that.
    pub(crate) fn new(min_hold: Duration, expires_at: Timestamp) -> Self {
        Self { until: rt::after(min_hold), expires_at }
    }

    /// The store has reported when the lock expires.
    pub(crate) fn set_expires_at(&mut self, expires_at: Timestamp) {
        self.expires_at = expires_at;
    }

    /// Lets the lock expire at the end of its minimum hold. `None` if that time is over, so that the caller
    /// releases the lock.
    ///
    /// The request names the known expiry, and every extend changes the expiry. So a renewal that was given
    /// up and arrives later changes nothing. If it arrived before this request, the store reports the new
    /// expiry, and the next request names that.
    pub(crate) async fn defer_release<B: LockBackend>(
        &self,
        backend: &B,
        key: &Key,
        lock_id: LockId,
    ) -> Result<Option<ReleaseResult>, LockError> {
        const TRIES: u32 = 4;
        let mut expected = self.expires_at;
        for _ in 0..TRIES {
            let Some(ttl) = self.ttl() else { return Ok(None) };
            let request = ExtendRequest {
                lock_id,
                key_hint: Some(key.clone()),
                ttl,
                expected_expiry: Some(expected),
                goes_with_others: false,
                cancellation: None,
            };
            match backend.extend(request).await? {
                ExtendResult::Extended { expires_at } => {
                    let free = Ttl::new(TIME_TOLERANCE).and_then(|time| expires_at.plus(time));
                    let until = free.unwrap_or(expires_at);
                    return Ok(Some(ReleaseResult::Kept { until }));
                }
                ExtendResult::NotHeld(why) => return Ok(Some(ReleaseResult::NotHeld(why))),
                ExtendResult::Mismatch { expires_at } => expected = expires_at,
            }
        }
        Err(LockError::new(
            ErrorCode::ServiceUnavailable,
            "another client keeps extending the lock with this id",
        ))
    }

    /// The TTL of a lock that expires at the end of its minimum hold; `None` if that is over.
    ///
    /// A store frees a lock [`TIME_TOLERANCE`] after its expiry. That time is part of the hold.
    fn ttl(&self) -> Option<Ttl> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        // Rounded up to whole milliseconds, because the hold is a minimum.
        let left = left.saturating_sub(TIME_TOLERANCE) + Duration::from_nanos(999_999);
        Some(Ttl::new(left).unwrap_or(Ttl::MIN))
    }
}
