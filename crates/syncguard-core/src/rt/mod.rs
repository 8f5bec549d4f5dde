//! The little that this crate asks of its surroundings: tasks, timers, a mutex.
//!
//! Unit tests replace it by a model on which shuttle explores every order of events; everything
//! else, integration tests included, runs on tokio.

#[cfg(test)]
pub(crate) mod model;
#[cfg(not(test))]
mod tokio_rt;

#[cfg(test)]
pub(crate) use model::{Instant, Mutex, Spawner, sleep_until};
#[cfg(not(test))]
pub(crate) use tokio_rt::{Instant, Mutex, Spawner, sleep_until};

use std::future::Future;
use std::time::Duration;

/// Runs a future until a point in time; `None` if the time came first.
pub(crate) async fn until<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep_until(deadline) => None,
    }
}

/// Now plus a duration, or as good as never where that cannot be counted.
pub(crate) fn after(duration: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(200 * 365 * 24 * 60 * 60);
    Instant::now() + duration.min(NEVER)
}
