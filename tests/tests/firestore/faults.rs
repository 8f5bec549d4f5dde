//! Servers that fall silent or refuse, and lost answers.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_firestore::contract::{IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_firestore::{
    ErrorCode, FirestoreBackend, FirestoreOptions, LockBackend as _, LockConfig, LockError, LockId,
    try_acquire,
};
use syncguard_test_services::proxy::{FaultProxy, Hold, ReplyCut};
use syncguard_tests::calls::{all_at_once, until};
use tokio::task::JoinSet;

use crate::firestore::support::{
    Raw, backend, backend_with, fresh, options_at, request, shared, take,
};

/// The request timeout of the tests that wait for it.
const SOON: Duration = Duration::from_secs(1);

fn impatient(options: FirestoreOptions) -> FirestoreOptions {
    options.with_request_timeout(SOON).with_operation_timeout(2 * SOON)
}

/// Runs every operation on a server that cannot answer, and checks their errors and times.
async fn all_fail(backend: &FirestoreBackend, id: LockId, code: ErrorCode) -> Result<()> {
    let started = Instant::now();
    let results = all_at_once(backend, "other", id).await;
    // The operation timeout is twice the request timeout; the rest is for a busy machine.
    assert!(started.elapsed() < 2 * SOON + Duration::from_secs(20), "{:?}", started.elapsed());
    for result in results {
        let error = result.err().context("an answer of a server that cannot answer")?;
        assert_eq!(error.code(), code, "{error:?}");
        assert!(error.is_retryable(), "{error:?}");
    }
    Ok(())
}

/// The server carries out later what it got while its clients waited in vain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_bounded_keeps_no_lock_and_is_forgotten() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let url = fresh();
    let (raw, direct) = (Raw::new(&url), backend(&url).await);
    let through = backend_with(&url, impatient(options_at(proxy.port()))).await;
    let held = take(&direct, "k", 60_000).await;
    // From here on the backend knows where the lock is.
    let again = async || through.acquire(request("k", 60_000).with_lock_id(held.lock_id)).await;
    until("connected", async || again().await.is_ok_and(|lock| lock.is_acquired())).await;

    proxy.freeze(true);
    all_fail(&through, held.lock_id, ErrorCode::NetworkTimeout).await?;
    proxy.freeze(false);
    proxy.sever();
    let is_locked = async || through.is_locked(IsLockedRequest::new("k").unwrap()).await.is_ok();
    until("connected again", is_locked).await;

    // Callers in every state of an acquire and a release, while the server falls silent and nothing listens any more.
    let mut callers: JoinSet<Result<(), LockError>> = JoinSet::new();
    for number in 0..16 {
        let config = LockConfig::new(format!("k{number}")).with_ttl(Duration::from_secs(3600));
        let through = through.clone();
        callers.spawn(async move {
            loop {
                let tried = try_acquire(&through, config.clone()).await?;
                let Some(guard) = tried.acquired() else { continue };
                let _ = guard.release().await?;
            }
        });
    }
    let before = proxy.counters().flights;
    until("busy", async || proxy.counters().flights > before + 100).await;
    proxy.refuse();
    proxy.hold(Hold::Open);
    let errors = callers.join_all().await.into_iter().filter_map(Result::err);
    assert!(errors.filter(LockError::is_outcome_unknown).count() > 0, "no commit was on its way");
    // Not before: the server would cancel what the client has given up.
    proxy.sever_clients();
    all_fail(&through, held.lock_id, ErrorCode::ServiceUnavailable).await?;
    assert_eq!(proxy.deliver(), 1);
    proxy.accept()?;
    let clean_up = || through.client_state();
    until("settled", async || clean_up().pending_releases() == 0).await;
    assert_eq!(clean_up().left_to_ttl(), 0);
    // Its release may have been carried out or not.
    let _ = through.release(ReleaseRequest::new(held.lock_id)).await?;
    until("all free", async || raw.ids("locks").await.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(raw.ids("locks").await.is_empty(), "a lock that came later");
    Ok(())
}

/// For example, a missing metadata server.
#[tokio::test]
async fn credentials_that_never_come_are_bounded() -> Result<()> {
    let url = fresh();
    let silent = Raw::without_credentials(&url);
    let backend = silent.backend(&url, &impatient(FirestoreOptions::new()));
    all_fail(&backend, LockId::generate()?, ErrorCode::NetworkTimeout).await?;
    let error = backend.acquire(request("k", 60_000)).await.unwrap_err();
    assert!(!error.is_outcome_unknown(), "{error:?}");
    Ok(())
}

/// The replies to the read and the commit and everything between are cut after any number of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_asked_for_again() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let url = fresh();
    let (raw, direct) = (Raw::new(&url), backend(&url).await);
    let (mut fences, mut cuts) = (0, 0);
    for bytes in (0..400).step_by(9) {
        let options = options_at(proxy.port()).with_remembered_locks(bytes % 2 * 10);
        let through = backend_with(&url, options).await;
        // The connection is open, with its greetings.
        through.is_locked(IsLockedRequest::new("warm")?).await?;
        let before = proxy.counters();
        proxy.set_reply_cut(ReplyCut::Once(bytes));
        match through.acquire(request("k", 60_000)).await {
            Ok(result) => {
                let lock = result.acquired().context("nobody else")?;
                assert!(lock.fence.get() > fences, "{} after {fences}", lock.fence);
                fences = lock.fence.get();
                let seen = direct.lookup(LookupRequest::by_key("k")?).await?.context("a lock")?;
                assert_eq!((seen.fence, seen.lock_id), (lock.fence, lock.lock_id));

                proxy.set_reply_cut(ReplyCut::Once(bytes));
                match through.release(ReleaseRequest::new(lock.lock_id)).await {
                    Ok(answer) => assert!(answer.is_released(), "{bytes}"),
                    Err(error) => {
                        assert!(error.is_outcome_unknown(), "{error:?}");
                        let _ = direct.release(ReleaseRequest::new(lock.lock_id)).await?;
                    }
                }
            }
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        proxy.set_reply_cut(ReplyCut::Never);
        until("free", async || raw.get("locks/k").await.is_none()).await;
        cuts += (proxy.counters() - before).cuts;
    }
    assert!(cuts >= 30 && fences >= 20, "{cuts} cuts, {fences} fences");
    Ok(())
}
