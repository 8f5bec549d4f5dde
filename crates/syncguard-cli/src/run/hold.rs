//! Acquires the lock, or one of the permits.

use rustix::process::Signal;
use syncguard::{DynBackend, ErrorCode, Held, LockError, LockGuard, ReleaseResult, acquire};

use super::nested;
use super::options::Wish;
use super::waiting::Waiting;
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::Signals;
use crate::time::human;

/// The guard of the lock or permit, held while the command runs.
pub(super) enum Hold {
    Lock(LockGuard<DynBackend>),
    #[cfg(feature = "permits")]
    Permit(syncguard::recipes::Permit<DynBackend>),
}

impl Hold {
    pub(super) fn held(&self) -> Held {
        match self {
            Self::Lock(guard) => guard.held(),
            #[cfg(feature = "permits")]
            Self::Permit(permit) => permit.held(),
        }
    }

    /// The number of the permit.
    pub(super) fn slot(&self) -> Option<u32> {
        match self {
            Self::Lock(_) => None,
            #[cfg(feature = "permits")]
            Self::Permit(permit) => Some(permit.slot()),
        }
    }

    pub(super) async fn release(self) -> Result<ReleaseResult, LockError> {
        match self {
            Self::Lock(guard) => guard.release().await,
            #[cfg(feature = "permits")]
            Self::Permit(permit) => permit.release().await,
        }
    }
}

/// The result of an acquire.
pub(super) enum Asked {
    Held(Box<Hold>),
    /// A signal asked this program to end. Nothing is held.
    Interrupted(Signal),
}

/// Acquires the lock or permit, and waits for it if requested.
pub(super) async fn ask(
    backend: &DynBackend,
    wish: &Wish,
    signals: &mut Signals,
    output: Output,
) -> Result<Asked, Failure> {
    let waiting = Waiting::new(backend, wish, output);
    let asked = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(Asked::Interrupted(signal)),
        asked = take(backend, wish) => asked,
        // Never completes: it only shows the holder.
        () = waiting.show() => return Err(Failure::new(Status::INTERNAL, "the display has ended")),
    };
    Ok(Asked::Held(Box::new(asked?)))
}

#[cfg(feature = "permits")]
async fn take(backend: &DynBackend, wish: &Wish) -> Result<Hold, Failure> {
    use syncguard::recipes::Semaphore;

    let Some(permits) = wish.permits else { return take_lock(backend, wish).await };
    let mut semaphore = Semaphore::new(backend.clone(), wish.config.key()?.clone(), permits)?
        .with_ttl(wish.config.ttl())
        .with_acquisition(wish.wait)
        .with_auto_extend(wish.plan);
    if let Some(at_least) = wish.at_least {
        semaphore = semaphore.with_min_hold(at_least);
    }
    super::beyond::refuse(backend, wish.config.key()?, permits).await?;
    let permit = if wish.waits() {
        semaphore.acquire().await.map_err(|error| waited(error, wish))?
    } else {
        semaphore.try_acquire().await?.ok_or_else(|| {
            conflict(format!(
                "all {permits} permits are held by other processes; --wait DURATION waits for one"
            ))
        })?
    };
    Ok(Hold::Permit(permit))
}

#[cfg(not(feature = "permits"))]
async fn take(backend: &DynBackend, wish: &Wish) -> Result<Hold, Failure> {
    let _ = (wish.permits, wish.plan, wish.at_least);
    take_lock(backend, wish).await
}

async fn take_lock(backend: &DynBackend, wish: &Wish) -> Result<Hold, Failure> {
    if wish.waits() {
        let acquired = acquire(backend, wish.config.clone()).await;
        return Ok(Hold::Lock(acquired.map_err(|error| waited(error, wish))?));
    }
    match syncguard::try_acquire(backend, wish.config.clone()).await?.acquired() {
        Some(guard) => Ok(Hold::Lock(guard)),
        None if wish.is_own => Err(conflict(nested::OWN)),
        None => Err(conflict("another process holds the lock; --wait DURATION waits for it")),
    }
}

/// The failure of a waiter that timed out. The message names the time only: the user gave no limit
/// of retries.
fn waited(error: LockError, wish: &Wish) -> Failure {
    if error.code() != ErrorCode::AcquisitionTimeout {
        return error.into();
    }
    let longest = human(wish.wait.timeout);
    conflict(match wish.permits {
        None => format!("another process still held the lock after {longest}"),
        Some(permits) => {
            format!("other processes still held all {permits} permits after {longest}")
        }
    })
}

fn conflict(message: impl Into<String>) -> Failure {
    Failure::new(Status::CONFLICT, message)
}
