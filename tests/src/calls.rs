//! Calls on any backend, and waits for what they lead to.

use std::time::{Duration, Instant};

use syncguard::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, KeyWatch, LookupRequest, ReleaseRequest,
    WatchRequest,
};
use syncguard::diagnostics::HealthLevel;
use syncguard::{
    AcquisitionOptions, Backoff, Jitter, Key, LockBackend, LockConfig, LockError, LockId,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Longer than the busiest machine takes for anything that a test waits for, and far shorter than [`unpolled`] waits
/// without a signal.
pub const SOON: Duration = Duration::from_secs(120);

/// Waits until a condition holds.
///
/// # Panics
///
/// If it does not hold [`SOON`].
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < SOON, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The subjects of the findings of a health check that are not green.
pub async fn risks<B: LockBackend>(backend: &B) -> Vec<&'static str> {
    let findings = backend.health().await.findings.into_iter();
    findings.filter(|finding| finding.level > HealthLevel::Green).map(|it| it.about).collect()
}

/// A watch of a key, if the backend has signals now.
pub async fn watch<B: LockBackend>(backend: &B, key: &str) -> Option<KeyWatch> {
    backend.watch(WatchRequest::new(Key::new(key).expect("a key"))).await
}

/// A wait with such long pauses that no poll can explain its end.
#[must_use]
pub fn unpolled(key: &str) -> LockConfig {
    polled_every(HOUR, key)
}

/// A wait that polls in fixed pauses. Each poll also tries to watch the key again, if the store was too busy before.
#[must_use]
pub fn polled_every(pause: Duration, key: &str) -> LockConfig {
    let options = AcquisitionOptions::new()
        .with_max_retries(u32::MAX)
        .with_backoff(Backoff::Fixed)
        .with_jitter(Jitter::None)
        .with_retry_delay(pause)
        .with_max_retry_delay(pause)
        .with_timeout(HOUR);
    LockConfig::new(key).with_ttl(HOUR).with_acquisition(options)
}

/// The results of each operation at the same time: an acquire of the key under a new lock id; an extend and a release of
/// the lock with the id; `is_locked`, and look-ups by key and by id.
pub async fn all_at_once<B: LockBackend>(
    backend: &B,
    key: &str,
    id: LockId,
) -> [Result<(), LockError>; 6] {
    let acquire = AcquireRequest::new(key, HOUR).expect("a request");
    let extend = ExtendRequest::new(id, HOUR).expect("a request");
    let is_locked = IsLockedRequest::new(key).expect("a request");
    let by_key = LookupRequest::by_key(key).expect("a request");
    let (acquire, extend, release, is_locked, by_key, by_id) = tokio::join!(
        Box::pin(backend.acquire(acquire)),
        Box::pin(backend.extend(extend)),
        Box::pin(backend.release(ReleaseRequest::new(id))),
        Box::pin(backend.is_locked(is_locked)),
        Box::pin(backend.lookup(by_key)),
        Box::pin(backend.lookup(LookupRequest::by_lock_id(id))),
    );
    [
        acquire.map(drop),
        extend.map(drop),
        release.map(drop),
        is_locked.map(drop),
        by_key.map(drop),
        by_id.map(drop),
    ]
}
