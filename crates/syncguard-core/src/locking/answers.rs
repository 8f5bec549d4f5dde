//! The answers of the store to the attempts of one acquisition.

use std::time::Duration;

use crate::contract::response::Contention;
use crate::rt::Instant;
use crate::util::answer_patience;
use crate::value::{ErrorCode, Key, LockError};

/// The answers of the store so far. They tell contention from a store that hangs.
#[derive(Default)]
pub(super) struct Answers {
    /// The number of attempts.
    pub(super) attempts: u32,
    /// The longest time that an answer took.
    pub(super) longest_answer: Duration,
    /// Whether another holder had the lock, by the last answer.
    pub(super) last_is_contention: bool,
    /// Whether the last attempt got no answer.
    pub(super) is_unanswered: bool,
    /// Whether a lock was granted whose TTL was over when the answer came.
    pub(super) was_late: bool,
    /// When the lock is free unless its holder extends it, by the last answer.
    free_at: Option<Instant>,
}

impl Answers {
    pub(super) fn on_locked(&mut self, took: Duration) {
        self.longest_answer = self.longest_answer.max(took);
        self.last_is_contention = true;
    }

    /// The store has answered that another holder has the lock.
    pub(super) fn set_free_at(&mut self, contention: Contention, now: Instant) {
        self.free_at = contention.free_within.map(|time| now + time);
    }

    /// The time until the lock is free unless its holder extends it, in whole milliseconds.
    pub(super) fn holder_time_left(&self, now: Instant) -> Option<Duration> {
        let left = self.free_at?.saturating_duration_since(now).as_millis();
        Some(Duration::from_millis(u64::try_from(left).ok()?)).filter(|left| !left.is_zero())
    }

    /// The time limit has cut off an attempt this long after it was sent.
    pub(super) fn on_timeout(&mut self, took: Duration) {
        self.is_unanswered = true;
        self.last_is_contention &= took <= answer_patience(self.longest_answer);
    }
}

/// For authors of recipes: the error for a caller whose time limit has cut off an acquire. `NetworkTimeout` with an unknown
/// outcome.
#[must_use]
pub fn unanswered(key: &Key, limit: Duration) -> LockError {
    let message = format!(
        "the store did not answer the last acquire within the acquisition limit of {limit:?}; what it may still grant is \
         given back"
    );
    LockError::new(ErrorCode::NetworkTimeout, message).with_unknown_outcome().with_key(key)
}
