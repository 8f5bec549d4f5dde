//! Random pauses, so that callers that collided do not collide again.

use std::time::Duration;

use crate::value::random::fill;

/// How much of each pause is random, so that contenders do not all come back at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Jitter {
    /// Half of the pause is fixed, half is random.
    #[default]
    Equal,
    /// The whole pause is random.
    Full,
    /// None of the pause is random.
    None,
}

impl Jitter {
    /// The pause with its random part; the whole pause if the system has no randomness.
    #[must_use]
    pub fn of(self, pause: Duration) -> Duration {
        match self {
            Self::None => pause,
            Self::Full => random_part(pause),
            Self::Equal => jittered(pause),
        }
    }
}

/// The pauses between tries after failures in a row: each is twice as long as the one before.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::Jitter;
/// use syncguard_core::authoring::RetryPauses;
///
/// const TRIES: RetryPauses = RetryPauses {
///     first: Duration::from_millis(50),
///     longest: Duration::from_secs(1),
///     jitter: Jitter::None,
/// };
/// let pauses = [1, 2, 6, 99].map(|failures| TRIES.pause(failures).as_millis());
/// assert_eq!(pauses, [50, 100, 1_000, 1_000]);
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a constant of its user")]
pub struct RetryPauses {
    /// The pause after the first failure.
    pub first: Duration,
    /// No pause is longer.
    pub longest: Duration,
    /// The random part of each pause.
    pub jitter: Jitter,
}

impl RetryPauses {
    /// Half of each pause is random.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, jitter: Jitter::Equal }
    }

    /// The pause after so many failures in a row.
    #[must_use]
    pub fn pause(self, failures: u32) -> Duration {
        let times = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.jitter.of(self.first.saturating_mul(times).min(self.longest))
    }
}

/// Half of the pause, plus a random part of the other half.
fn jittered(pause: Duration) -> Duration {
    let half = pause / 2;
    half + random_part(half)
}

/// A random duration up to this one; the whole duration if the system has no randomness.
fn random_part(duration: Duration) -> Duration {
    let mut random = [0; 4];
    if fill(&mut random).is_err() {
        return duration;
    }
    let random = u32::from_ne_bytes(random);
    // The cap keeps the product below from overflowing; no pause comes near it.
    let duration = duration.min(Duration::from_secs(1 << 31));
    let nanos = (duration.as_nanos() * u128::from(random)) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
