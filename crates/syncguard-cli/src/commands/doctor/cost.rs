//! Measures how long an acquire and a release take.

use std::time::{Duration, Instant};

use syncguard::contract::ReleaseRequest;
use syncguard::{DynBackend, LockBackend as _, LockError};

use super::probe;

/// The times of acquires and releases, which ran one after the other.
pub(super) struct Cost {
    pub(super) acquire: Times,
    pub(super) release: Times,
}

pub(super) struct Times {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) round_trips: u32,
}

pub(super) async fn measure(
    backend: &DynBackend,
    rounds: u32,
    round_trips: (u32, u32),
) -> Result<Cost, LockError> {
    let (mut acquires, mut releases) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        let acquired = probe::acquire(backend).await?;
        acquires.push(began.elapsed());
        let began = Instant::now();
        // The result does not matter: if an administrator has taken the lock away, the time is
        // still valid.
        let _ = backend.release(ReleaseRequest::new(acquired.lock_id)).await?;
        releases.push(began.elapsed());
    }
    Ok(Cost {
        acquire: Times::of(acquires, round_trips.0),
        release: Times::of(releases, round_trips.1),
    })
}

impl Times {
    fn of(mut times: Vec<Duration>, round_trips: u32) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(index).copied().unwrap_or_default()
        };
        Self { p50: at(50), p99: at(99), round_trips }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let times = Times::of(times, 1);
        assert_eq!((times.p50.as_millis(), times.p99.as_millis()), (50, 99));
        assert_eq!(Times::of(vec![Duration::from_millis(7)], 1).p99.as_millis(), 7);
    }
}
