//! Random pauses, so that callers that collided do not collide again.

use std::time::Duration;

use crate::value::random::fill;

/// Half of the pause, plus a random part of the other half.
#[must_use]
pub fn jittered(pause: Duration) -> Duration {
    let half = pause / 2;
    half + random_part(half)
}

/// A random duration up to this one; the whole duration if the system has no randomness.
#[must_use]
pub fn random_part(duration: Duration) -> Duration {
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
