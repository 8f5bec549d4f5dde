//! Takes the lock, one of the permits, or a part of a read/write lock.

use std::ops::ControlFlow;
use std::time::Duration;

use syncguard::recipes::{ReadGuard, RwLock, Semaphore, WriteGuard};
use syncguard::{DynBackend, ErrorCode, LockError, LockGuard};

use super::guard::Guard;
use super::request::LockRequest;
use super::ride_out::RideOut;
use super::sharing::Sharing;
use super::wait_display::WaitDisplay;
use super::{nested, permit_mismatch};
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::Signals;
use crate::store::Store;
use crate::time::human;

/// The result of an acquire.
pub(crate) enum Acquired<G> {
    Held(DynBackend, G),
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

/// Connects to the store, takes the lock or permit, and waits for it if requested.
///
/// # Errors
///
/// Fails if the store fails, and if this program already runs under the requested lock.
pub(crate) async fn acquire<G>(
    store: &Store,
    key: &str,
    request: &LockRequest,
    signals: &mut Signals,
    output: Output,
    take: impl AsyncFn(&DynBackend, &LockRequest) -> Result<G, Failure>,
) -> Result<Acquired<G>, Failure> {
    let backend = match connect(store, key, request, signals, output).await? {
        ControlFlow::Continue(backend) => backend,
        ControlFlow::Break(status) => return Ok(Acquired::Ended(status)),
    };
    let ride_out = RideOut::new(request.ride_out, output);
    let backend = ride_out.watch(backend);
    let display = WaitDisplay::new(&backend, request, output);
    let acquires = ride_out.over(async || {
        // A request without an answer may have been granted.
        finish_releases(&backend).await;
        take(&backend, request).await
    });
    let guard = tokio::select! {
        biased;
        signal = signals.next_ending() => Ok(Acquired::Ended(Status::of_signal(signal.as_raw()))),
        guard = acquires => guard.map(|guard| Acquired::Held(backend.clone(), guard)),
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

/// Takes what the request asks for.
pub(super) async fn take_any(
    backend: &DynBackend,
    request: &LockRequest,
) -> Result<Guard, Failure> {
    match (request.sharing, request.permits) {
        (Some(sharing), _) => take_part(backend, request, sharing).await,
        (None, Some(permits)) => take_permit(backend, request, permits).await,
        (None, None) => {
            let lock = take_lock(backend, request).await?;
            Ok(Guard::new(lock.held(), None, lock.release()))
        }
    }
}

async fn take_permit(
    backend: &DynBackend,
    request: &LockRequest,
    permits: u32,
) -> Result<Guard, Failure> {
    let key = request.config.key()?;
    let semaphore = Semaphore::new(backend.clone(), request.config.clone(), permits);
    permit_mismatch::check(backend, key, permits).await?;
    let permit = if request.waits() {
        semaphore.acquire().await.map_err(|error| timed_out(error, request))?
    } else {
        semaphore.try_acquire().await?.acquired().ok_or_else(|| {
            conflict(format!(
                "all {permits} permits are held by other processes; --wait DURATION waits for one"
            ))
        })?
    };
    Ok(Guard::new(permit.held(), Some(permit.slot()), permit.release()))
}

/// Takes a part of a read/write lock.
async fn take_part(
    backend: &DynBackend,
    request: &LockRequest,
    Sharing { writes, slots }: Sharing,
) -> Result<Guard, Failure> {
    let lock = RwLock::new(backend.clone(), request.config.clone(), slots);
    let late = |error| timed_out(error, request);
    let reader = |read: ReadGuard<_>| Guard::new(read.held(), Some(read.slot()), read.release());
    let writer = |write: WriteGuard<_>| Guard::new(write.held(), None, write.release());
    let guard = match (writes, request.waits()) {
        (false, true) => Some(reader(lock.read().await.map_err(late)?)),
        (true, true) => Some(writer(lock.write().await.map_err(late)?)),
        (false, false) => lock.try_read().await?.acquired().map(reader),
        (true, false) => lock.try_write().await?.acquired().map(writer),
    };
    guard.ok_or_else(|| conflict("other processes hold the lock; --wait DURATION waits for it"))
}

/// Takes the lock of the key itself.
pub(crate) async fn take_lock(
    backend: &DynBackend,
    request: &LockRequest,
) -> Result<LockGuard<DynBackend>, Failure> {
    if request.waits() {
        let acquired = syncguard::acquire(backend, request.config.clone()).await;
        return acquired.map_err(|error| timed_out(error, request));
    }
    let tried = syncguard::try_acquire(backend, request.config.clone()).await?;
    tried
        .acquired()
        .ok_or_else(|| conflict("another process holds the lock; --wait DURATION waits for it"))
}

/// The failure of a waiter that timed out. The message names the time only: the user gave no limit
/// of retries.
fn timed_out(error: LockError, request: &LockRequest) -> Failure {
    if error.code() != ErrorCode::AcquisitionTimeout {
        return error.into();
    }
    let longest = human(request.config.acquisition().timeout);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use syncguard::contract::ReleaseRequest;
    use syncguard::{
        AcquisitionOptions, AutoExtend, Fence, LockBackend, LockConfig, LossReason, ReleaseResult,
        forward,
    };
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lock_a_permit_and_a_part_have_the_ttl_the_wait_and_the_longest_hold() {
        let seconds = Duration::from_secs;
        let part = |writes| Some(Sharing { writes, slots: 1 });
        for (permits, sharing) in
            [(None, None), (Some(1), None), (None, part(false)), (None, part(true))]
        {
            let backend = syncguard::connect("memory:").await.unwrap();
            let config = LockConfig::new("k")
                .with_ttl(seconds(7))
                .with_wait_up_to(seconds(11))
                .with_auto_extend(AutoExtend::new().with_max_hold(seconds(100)));
            let request = LockRequest::of_lock(config, Status::CONFLICT);
            let request = LockRequest { permits, sharing, ..request };
            let Guard { held, .. } = &take_any(&backend, &request).await.unwrap();
            assert!(
                (seconds(6)..=seconds(7)).contains(&held.valid_for()),
                "{:?}",
                held.valid_for()
            );
            let began = Instant::now();
            let late = take_any(&backend, &request).await.err().map(|failure| failure.status());
            assert_eq!((late, began.elapsed().as_secs()), (Some(Status::CONFLICT), 11));
            if sharing.is_none() {
                let lost = timeout(seconds(200), held.lost()).await;
                assert_eq!(lost, Ok(LossReason::MaxHold));
            }
        }
    }

    /// A store whose releases take longer than the first pause of `--ride-out`.
    #[derive(Clone)]
    struct Slow(DynBackend);

    impl LockBackend for Slow {
        type Fence = Fence;

        async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
            sleep(Duration::from_millis(400)).await;
            self.0.release(request).await
        }

        forward!(0: acquire, extend, is_locked, lookup, watch, health, inventory, capabilities, client_state);
    }

    /// The answer to the first request is lost, and its lock is being given back.
    #[tokio::test]
    async fn a_request_without_an_answer_holds_up_the_next_one_and_is_no_rival() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let store = Store::new(&format!("sqlite://{}", path.display())).unwrap();
        let once = AcquisitionOptions::new().with_max_retries(0);
        let config = LockConfig::new("k").with_acquisition(once);
        let request = LockRequest::of_lock(config, Status::CONFLICT);
        let request = LockRequest { ride_out: Duration::from_secs(60), ..request };
        let (mut signals, is_first) = (Signals::listen().unwrap(), Cell::new(true));
        let take = async |backend: &DynBackend, request: &LockRequest| {
            if is_first.replace(false) {
                drop(syncguard::acquire(&Slow(backend.clone()), "k").await?);
                return Err(Failure::new(Status::UNAVAILABLE, "no answer"));
            }
            take_lock(backend, request).await
        };
        let acquired = acquire(&store, "k", &request, &mut signals, Output::new(true), take).await;
        assert!(matches!(acquired, Ok(Acquired::Held(..))));
    }
}
