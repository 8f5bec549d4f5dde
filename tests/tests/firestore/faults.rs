//! Servers that stop, die or fall silent, lost answers, and callers that leave.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_firestore::contract::{
    AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::{
    ErrorCode, FirestoreBackend, FirestoreOptions, LockBackend as _, LockError, LockId,
};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use syncguard_tests::polling::{poll_times, poll_times_and_linger};

use crate::firestore::support::{
    Raw, backend, backend_with, eventually, fresh, options, options_at, request, shared, take,
    warm_up,
};

/// The request timeout of the tests that wait for it.
const SOON: Duration = Duration::from_secs(1);

/// The limit for the end of a lock without an owner: far below its TTL.
const ORPHANED: Duration = Duration::from_secs(20);

fn impatient(options: FirestoreOptions) -> FirestoreOptions {
    options.with_request_timeout(SOON).with_operation_timeout(2 * SOON)
}

/// Runs every operation on a server that cannot answer, and checks their errors and times.
async fn all_fail(backend: &FirestoreBackend, id: LockId) -> Result<Vec<LockError>> {
    let started = Instant::now();
    let (acquire, extend, is_locked, by_key, by_id, release) = tokio::join!(
        Box::pin(backend.acquire(request("other", 60_000))),
        Box::pin(backend.extend(ExtendRequest::new(id, SOON)?)),
        Box::pin(backend.is_locked(IsLockedRequest::new("k")?)),
        Box::pin(backend.lookup(LookupRequest::by_key("k")?)),
        Box::pin(backend.lookup(LookupRequest::by_lock_id(id))),
        Box::pin(backend.release(ReleaseRequest::new(id))),
    );
    // The operation timeout is twice the request timeout; the rest is for a busy machine.
    assert!(started.elapsed() < 2 * SOON + Duration::from_secs(10), "{:?}", started.elapsed());
    let errors = [acquire.err(), extend.err(), is_locked.err(), by_key.err(), by_id.err()];
    let errors: Vec<_> = errors.into_iter().chain([release.err()]).flatten().collect();
    assert_eq!(errors.len(), 6, "{errors:?}");
    Ok(errors)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_dies_and_comes_back() -> Result<()> {
    let mut emulator = FirestoreEmulator::start()?;
    warm_up(emulator.port()).await;
    let url = fresh();
    let patient = backend_with(&url, options_at(emulator.port())).await;
    let backend = backend_with(&url, impatient(options_at(emulator.port()))).await;
    let held = take(&patient, "k", 60_000).await;
    remembers(&backend, "k", held.lock_id).await;

    emulator.pause()?;
    for error in all_fail(&backend, held.lock_id).await? {
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
    }
    emulator.resume()?;
    // Requests on the network may still arrive: the key has at most one holder, and is soon free.
    let freed = Instant::now();
    while patient.is_locked(IsLockedRequest::new("other")?).await? {
        assert!(freed.elapsed() < ORPHANED, "an orphan");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _ = patient.release(ReleaseRequest::new(held.lock_id)).await?;
    let _next = take(&patient, "k", 60_000).await;

    emulator.kill()?;
    for error in all_fail(&backend, held.lock_id).await? {
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
        assert!(error.is_retryable());
    }
    emulator.restart()?;
    let back = Instant::now();
    let healed = loop {
        // The first answers take longer than the limit. A late grant is given back.
        let result = backend.acquire(request("k", 60_000)).await;
        assert!(back.elapsed() < Duration::from_secs(60), "{result:?}");
        if let Some(lock) = result.ok().and_then(AcquireResult::acquired) {
            break lock;
        }
    };
    assert!(patient.release(ReleaseRequest::new(healed.lock_id)).await?.is_released());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_is_bounded_and_forgotten() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let url = fresh();
    let through = backend_with(&url, impatient(options_at(proxy.port()))).await;
    let direct = backend(&url).await;
    let held = take(&direct, "k", 60_000).await;
    remembers(&through, "k", held.lock_id).await;
    proxy.freeze(true);
    for error in all_fail(&through, held.lock_id).await? {
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
    }
    proxy.freeze(false);
    proxy.sever();
    let healed = Instant::now();
    while through.is_locked(IsLockedRequest::new("k")?).await.is_err() {
        assert!(healed.elapsed() < Duration::from_secs(20), "no new connection");
    }
    assert!(!direct.is_locked(IsLockedRequest::new("other")?).await?, "an orphan");
    proxy.refuse();
    proxy.sever();
    for error in all_fail(&through, held.lock_id).await? {
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    }
    Ok(())
}

/// For example, a missing metadata server.
#[tokio::test]
async fn credentials_that_never_come_are_bounded() -> Result<()> {
    let url = fresh();
    let silent = Raw::without_credentials(&url);
    let backend = silent.backend(&url, &impatient(FirestoreOptions::new()));
    for error in all_fail(&backend, LockId::generate()?).await? {
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
        assert!(!error.is_outcome_unknown(), "{error:?}");
    }
    Ok(())
}

/// Connects a backend with short limits, which then knows where a lock is.
async fn remembers(backend: &FirestoreBackend, key: &str, id: LockId) {
    let again = async || backend.acquire(request(key, 60_000).with_lock_id(id)).await;
    eventually("connected", async || again().await.is_ok_and(|lock| lock.is_acquired())).await;
}

/// The replies to the read and the commit and everything between are cut after any number of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_asked_for_again() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let url = fresh();
    let (raw, direct) = (Raw::new(&url), backend(&url).await);
    let (mut fences, mut cuts, mut unknown) = (0, 0, 0);
    for bytes in (0..400).step_by(9) {
        let options = options_at(proxy.port()).with_remembered_locks(bytes % 2 * 10);
        let through = backend_with(&url, options).await;
        // The connection is open, with its greetings.
        through.is_locked(IsLockedRequest::new("warm")?).await?;
        let before = proxy.counters();
        proxy.set_reply_cut(ReplyCut::Once(bytes));
        let key = "k";
        let result = through.acquire(request(key, 60_000)).await;
        match result {
            Ok(result) => {
                let lock = result.acquired().context("nobody else")?;
                assert!(lock.fence.get() > fences, "{} after {fences}", lock.fence);
                fences = lock.fence.get();
                let seen = direct.lookup(LookupRequest::by_key(key)?).await?.context("a lock")?;
                assert_eq!((seen.fence, seen.expose().lock_id), (lock.fence, lock.lock_id));

                proxy.set_reply_cut(ReplyCut::Once(bytes));
                match through.release(ReleaseRequest::new(lock.lock_id)).await {
                    Ok(answer) => assert!(answer.is_released(), "{bytes}"),
                    Err(error) => {
                        assert!(error.is_outcome_unknown(), "{error:?}");
                        unknown += 1;
                        let _ = direct.release(ReleaseRequest::new(lock.lock_id)).await?;
                    }
                }
            }
            Err(error) => {
                assert!(error.is_retryable(), "{error:?}");
                let freed = Instant::now();
                while direct.is_locked(IsLockedRequest::new(key)?).await? {
                    assert!(freed.elapsed() < ORPHANED, "an orphan, {error:?}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
        proxy.set_reply_cut(ReplyCut::Never);
        assert!(!direct.is_locked(IsLockedRequest::new(key)?).await?);
        cuts += (proxy.counters() - before).cuts;
    }
    println!("{cuts} replies cut, {unknown} releases of unknown outcome, {fences} fences");
    assert!(cuts >= 30 && fences >= 20, "{cuts} cuts, {fences} fences");
    assert!(raw.ids("locks").await.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_at_any_moment_leaves_nothing() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    for remembered in [0, 10] {
        let options = options().with_remembered_locks(remembered);
        let (ours, other) = (backend_with(&url, options).await, backend(&url).await);
        for polls in 0..24 {
            // Dropped at once, and a little after an answer has arrived that was not read.
            for late in [false, true] {
                let key = format!("k{remembered}-{polls}-{late}");
                let acquire = request(&key, 60_000);
                let id = acquire.lock_id;
                let linger = Duration::from_millis(if late { 4 } else { 0 });
                let acquired = poll_times_and_linger(ours.acquire(acquire), polls, linger).await;
                if acquired.transpose()?.is_some() {
                    let extend = ExtendRequest::new(id, Duration::from_secs(90))?;
                    let _ = poll_times(ours.extend(extend), polls).await;
                    let _ = poll_times(ours.release(ReleaseRequest::new(id)), polls).await;
                    let _ = ours.release(ReleaseRequest::new(id)).await?;
                }
                let left = Instant::now();
                let next = loop {
                    if let Some(next) = other.acquire(request(&key, 60_000)).await?.acquired() {
                        break next;
                    }
                    assert!(left.elapsed() < ORPHANED, "an orphan after {polls}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                };
                assert!(other.release(ReleaseRequest::new(next.lock_id)).await?.is_released());
            }
        }
    }
    eventually("all gone", async || raw.ids("locks").await.is_empty()).await;
    Ok(())
}
