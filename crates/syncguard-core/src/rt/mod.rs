//! The runtime as this crate uses it: tasks, timers and a mutex.
//!
//! Unit tests replace tokio by a model, on which shuttle explores orders of events. All other code,
//! including the integration tests, runs on tokio.

pub(crate) mod asleep;
#[cfg(test)]
pub(crate) mod model;
#[cfg(all(target_os = "linux", not(test)))]
mod resumed;
#[cfg(not(test))]
mod tokio_rt;

#[cfg(not(test))]
pub(crate) use asleep::SUSPEND_CHECK;
pub(crate) use asleep::awake_and_asleep;
#[cfg(test)]
pub(crate) use model::{
    Instant, Mutex, RuntimeId, Spawner, is_usable, sleep_awake, sleep_until, yield_now,
};
#[cfg(not(test))]
pub(crate) use tokio_rt::{
    Instant, Mutex, RuntimeId, Spawner, is_usable, sleep_awake, sleep_until, yield_now,
};

use std::future::Future;
use std::time::Duration;

use crate::value::Ttl;

/// Runs a future until a point in time; `None` if the time came first.
pub(crate) async fn until<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep_until(deadline) => None,
    }
}

/// Runs a future for this long at the most; `None` if the time came first. The clock is not read if the future
/// is ready at once.
pub(crate) async fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = async { sleep_until(after(time)).await } => None,
    }
}

/// Now plus a duration, which is cut to the longest TTL.
pub(crate) fn after(duration: Duration) -> Instant {
    Instant::now() + duration.min(Ttl::MAX.as_duration())
}
