//! Acquires the lock, or one of the permits.

use std::ops::ControlFlow;
use std::time::Duration;

use syncguard::{DynBackend, ErrorCode, Held, LockError, LockGuard, ReleaseResult};

use super::nested;
use super::request::LockRequest;
use super::ride_out::RideOut;
use super::wait_display::WaitDisplay;
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::Signals;
use crate::store::Store;
use crate::time::human;

/// The guard of the lock or permit, and how it is given back.
pub(crate) enum Guard {
    Lock(LockGuard<DynBackend>),
    #[cfg(feature = "permits")]
    Permit(syncguard::recipes::Permit<DynBackend>),
    #[cfg(feature = "permits")]
    Read(syncguard::recipes::ReadGuard<DynBackend>),
    #[cfg(feature = "permits")]
    Write(syncguard::recipes::WriteGuard<DynBackend>),
}

impl Guard {
    pub(super) fn held(&self) -> Held {
        match self {
            Self::Lock(guard) => guard.held(),
            #[cfg(feature = "permits")]
            Self::Permit(permit) => permit.held(),
            #[cfg(feature = "permits")]
            Self::Read(read) => read.held(),
            #[cfg(feature = "permits")]
            Self::Write(write) => write.held(),
        }
    }

    /// The number of the permit, or of the slot of a reader.
    pub(super) fn slot(&self) -> Option<u32> {
        match self {
            #[cfg(feature = "permits")]
            Self::Permit(permit) => Some(permit.slot()),
            #[cfg(feature = "permits")]
            Self::Read(read) => Some(read.slot()),
            _ => None,
        }
    }

    /// The guard of a lock.
    ///
    /// # Errors
    ///
    /// Fails for a permit.
    pub(crate) fn into_lock(self) -> Result<LockGuard<DynBackend>, Failure> {
        match self {
            Self::Lock(guard) => Ok(guard),
            #[cfg(feature = "permits")]
            _ => Err(Failure::new(Status::INTERNAL, "a permit is not a lock")),
        }
    }

    pub(super) async fn release(self) -> Result<ReleaseResult, LockError> {
        match self {
            Self::Lock(guard) => guard.release().await,
            #[cfg(feature = "permits")]
            Self::Permit(permit) => permit.release().await,
            #[cfg(feature = "permits")]
            Self::Read(read) => read.release().await,
            #[cfg(feature = "permits")]
            Self::Write(write) => write.release().await,
        }
    }
}

/// The result of an acquire.
pub(crate) enum Acquired {
    Held(DynBackend, Box<Guard>),
    /// Nothing is held: another process has the lock, or a signal asked this program to end.
    Ended(Status),
}

/// Connects to the store, unless a signal asks this program to end first.
///
/// # Errors
///
/// Fails if the store fails, and if this program already runs under the requested lock.
pub(super) async fn connect(
    store: &Store,
    key: &str,
    request: &LockRequest,
    signals: &mut Signals,
    output: Output,
) -> Result<ControlFlow<Status, DynBackend>, Failure> {
    let connects = RideOut::new(request.ride_out, output).over(async || {
        let backend = store.connect().await?;
        nested::refuse(&backend, request, key, store).await?;
        Ok(ControlFlow::Continue(backend))
    });
    tokio::select! {
        biased;
        signal = signals.next_ending() => Ok(ControlFlow::Break(Status::of_signal(signal.as_raw()))),
        backend = connects => backend,
    }
}

/// Connects to the store, acquires the lock or permit, and waits for it if requested.
///
/// # Errors
///
/// Fails if the store fails, and if this program already runs under the requested lock.
pub(crate) async fn acquire(
    store: &Store,
    key: &str,
    request: &LockRequest,
    signals: &mut Signals,
    output: Output,
) -> Result<Acquired, Failure> {
    let backend = match connect(store, key, request, signals, output).await? {
        ControlFlow::Continue(backend) => backend,
        ControlFlow::Break(status) => return Ok(Acquired::Ended(status)),
    };
    let display = WaitDisplay::new(&backend, request, output);
    let acquires = RideOut::new(request.ride_out, output).over(async || {
        // A request without an answer may have been granted.
        finish_releases(&backend).await;
        acquire_any(&backend, request).await
    });
    let guard = tokio::select! {
        biased;
        signal = signals.next_ending() => Ok(Acquired::Ended(Status::of_signal(signal.as_raw()))),
        guard = acquires => guard.map(|guard| Acquired::Held(backend.clone(), Box::new(guard))),
        // Never completes: it only shows the holder.
        () = display.show() => Err(Failure::new(Status::INTERNAL, "the display has ended")),
    };
    if !matches!(guard, Ok(Acquired::Held(..))) {
        finish_releases(&backend).await;
    }
    match guard {
        // Contention is a result and no error, so `--quiet` hides its message.
        Err(failure) if failure.status() == Status::CONFLICT => {
            output.note(format!("{failure}{}", display.holder_now().await));
            Ok(Acquired::Ended(request.conflict))
        }
        guard => guard,
    }
}

/// Lets the library release locks that were granted too late. A lock that it cannot release in this
/// time ends by its TTL.
pub(crate) async fn finish_releases(backend: &DynBackend) {
    const LONGEST: Duration = Duration::from_secs(5);
    let _ = backend.drained(LONGEST).await;
}

#[cfg(feature = "permits")]
async fn acquire_any(backend: &DynBackend, request: &LockRequest) -> Result<Guard, Failure> {
    use syncguard::recipes::Semaphore;

    if let Some(sharing) = request.sharing {
        return acquire_shared(backend, request, sharing).await;
    }
    let Some(permits) = request.permits else { return acquire_lock(backend, request).await };
    let mut semaphore = Semaphore::new(backend.clone(), request.config.key()?.clone(), permits)?
        .with_ttl(request.config.ttl())
        .with_acquisition(request.acquisition)
        .with_auto_extend(request.auto_extend);
    if let Some(min_hold) = request.min_hold {
        semaphore = semaphore.with_min_hold(min_hold);
    }
    super::permit_mismatch::check(backend, request.config.key()?, permits).await?;
    let permit = if request.waits() {
        semaphore.acquire().await.map_err(|error| timed_out(error, request))?
    } else {
        semaphore.try_acquire().await?.ok_or_else(|| {
            conflict(format!(
                "all {permits} permits are held by other processes; --wait DURATION waits for one"
            ))
        })?
    };
    Ok(Guard::Permit(permit))
}

#[cfg(feature = "permits")]
async fn acquire_shared(
    backend: &DynBackend,
    request: &LockRequest,
    sharing: super::sharing::Sharing,
) -> Result<Guard, Failure> {
    use syncguard::recipes::RwLock;

    let lock = RwLock::new(backend.clone(), request.config.key()?.clone(), sharing.slots)?
        .with_ttl(request.config.ttl())
        .with_wait_up_to(request.acquisition.timeout);
    let late = |error| timed_out(error, request);
    let guard = match (sharing.writes, request.waits()) {
        (false, true) => Some(Guard::Read(lock.read().await.map_err(late)?)),
        (true, true) => Some(Guard::Write(lock.write().await.map_err(late)?)),
        (false, false) => lock.try_read().await?.map(Guard::Read),
        (true, false) => lock.try_write().await?.map(Guard::Write),
    };
    guard.ok_or_else(|| conflict("other processes hold the lock; --wait DURATION waits for it"))
}

#[cfg(not(feature = "permits"))]
async fn acquire_any(backend: &DynBackend, request: &LockRequest) -> Result<Guard, Failure> {
    let _ = (request.permits, request.auto_extend, request.min_hold);
    acquire_lock(backend, request).await
}

async fn acquire_lock(backend: &DynBackend, request: &LockRequest) -> Result<Guard, Failure> {
    if request.waits() {
        let acquired = syncguard::acquire(backend, request.config.clone()).await;
        return Ok(Guard::Lock(acquired.map_err(|error| timed_out(error, request))?));
    }
    match syncguard::try_acquire(backend, request.config.clone()).await?.acquired() {
        Some(guard) => Ok(Guard::Lock(guard)),
        None => Err(conflict("another process holds the lock; --wait DURATION waits for it")),
    }
}

/// The failure of a waiter that timed out. The message names the time only: the user gave no limit
/// of retries.
fn timed_out(error: LockError, request: &LockRequest) -> Failure {
    if error.code() != ErrorCode::AcquisitionTimeout {
        return error.into();
    }
    let longest = human(request.acquisition.timeout);
    conflict(match request.permits {
        None => format!("another process still held the lock after {longest}"),
        Some(permits) => {
            format!("other processes still held all {permits} permits after {longest}")
        }
    })
}

fn conflict(message: impl Into<String>) -> Failure {
    Failure::new(Status::CONFLICT, message)
}
