//! The targets.

/// Of one row; a bound that is `None` is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// At most so many times the median of the row's floor.
    pub(crate) over_floor: Option<f64>,
    /// At least this part of the time in use, of the part that the row's floor allows.
    pub(crate) in_use: Option<f64>,
    /// The longest wait, at most so many times the ideal one.
    pub(crate) over_ideal: Option<f64>,
    /// At most so many commands a hand-over.
    pub(crate) commands: Option<f64>,
}

const fn target(
    over_floor: Option<f64>,
    in_use: Option<f64>,
    over_ideal: Option<f64>,
    commands: Option<f64>,
) -> Option<Target> {
    Some(Target { over_floor, in_use, over_ideal, commands })
}

/// Of each process, a part of all turns, and how far off it may be, where there are four.
pub(crate) const SHARE_OF_FOUR: (f64, f64) = (0.25, 0.08);

/// In ms, for a machine where tokio's mutex is fast.
pub(crate) const MEMORY_HAND_OVER: f64 = 0.012;
/// For a slower machine: at most so many times the mutex.
pub(crate) const MEMORY_OVER_MUTEX: f64 = 6.0;
pub(crate) const MEMORY_64_IN_1: Option<Target> = target(None, Some(0.97), Some(1.5), None);
pub(crate) const REDIS_64_IN_1: Option<Target> =
    target(Some(1.3), Some(0.89), Some(1.6), Some(2.1));
pub(crate) const REDIS_16_IN_4: Option<Target> =
    target(Some(2.0), Some(0.82), Some(7.0), Some(4.2));
pub(crate) const REDIS_64_IN_4: Option<Target> =
    target(Some(2.0), Some(0.82), Some(4.5), Some(4.0));
pub(crate) const REDIS_64_IN_4_50_MS: Option<Target> =
    target(None, Some(0.95), Some(1.5), Some(6.0));
/// A further target: the number of commands of 1 000 waiters must not grow with their number.
pub(crate) const REDIS_1000_IN_1: Option<Target> = target(None, None, None, Some(2.1));
pub(crate) const POSTGRES_64_IN_1: Option<Target> =
    target(Some(1.5), Some(0.73), Some(1.8), Some(2.1));
pub(crate) const POSTGRES_16_IN_4: Option<Target> =
    target(Some(1.6), Some(0.69), Some(8.0), Some(4.5));
/// A cycle is three calls.
pub(crate) const FIRESTORE_16_IN_1: Option<Target> = target(Some(1.5), None, Some(2.0), Some(4.0));
