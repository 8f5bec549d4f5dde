//! The little that this crate asks of its surroundings: tasks, timers, a mutex.
//!
//! Unit tests replace it by a model on which shuttle explores every order of events; everything
//! else, integration tests included, runs on tokio.

mod asleep;
#[cfg(test)]
pub(crate) mod model;
#[cfg(not(test))]
mod tokio_rt;

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

use crate::LockError;

/// How late somebody who waits for a point in time may hear that the machine was asleep.
#[cfg_attr(test, expect(dead_code, reason = "the model's clock never sleeps"))]
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// # Errors
///
/// `InvalidArgument` outside a tokio runtime, or in one without timers. With `panic = "abort"` a runtime without timers
/// ends the process, with tokio's own message: nothing but a panic tells that it has none.
pub(crate) fn check() -> Result<(), LockError> {
    if is_usable() {
        return Ok(());
    }
    Err(LockError::invalid_argument(
        "called outside a tokio runtime, or in one without timers; call it in one with enable_time or enable_all",
    ))
}

/// Runs a future until a point in time; `None` if the time came first.
pub(crate) async fn until<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep_until(deadline) => None,
    }
}

/// Runs a future for so long at the most; `None` if that was not enough. The clock is not read for one that is
/// ready at once.
pub(crate) async fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = async { sleep_until(after(time)).await } => None,
    }
}

/// Now plus a duration, or as good as never where that cannot be counted.
pub(crate) fn after(duration: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(200 * 365 * 24 * 60 * 60);
    Instant::now() + duration.min(NEVER)
}
