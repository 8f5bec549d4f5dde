//! Faults of the network, the server and clients.

use std::future::Future;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{
    AcquisitionOptions, LockBackend as _, LockConfig, LockError, NotHeld, RedisBackend,
    RedisOptions, ReleaseResult, lock,
};
use syncguard_test_effort::either;
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use syncguard_test_services::redis::{AppendOnly, RedisServer};
use syncguard_tests::polling::poll_times;
use tokio::task::{JoinHandle, JoinSet};

use crate::redis::history::History;
use crate::redis::support::{
    Raw, alone, backend, backend_with, fresh, patient, request, shared, take,
};

const COMMAND_TIMEOUT: Duration = Duration::from_millis(400);
/// How much longer a call may take on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

fn quick() -> RedisOptions {
    RedisOptions::new().with_command_timeout(COMMAND_TIMEOUT)
}

/// A backend whose connections have no name, so that each reply is the reply to a call.
async fn through(proxy: &FaultProxy) -> Result<RedisBackend> {
    through_with(proxy, quick()).await
}

async fn through_with(proxy: &FaultProxy, options: RedisOptions) -> Result<RedisBackend> {
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    Ok(RedisBackend::connect_with(&url, options.with_holder("")).await?)
}

/// Waits until the key is free.
async fn freed(backend: &RedisBackend, key: &str, within: Duration) -> Result<()> {
    let started = Instant::now();
    while backend.lookup(LookupRequest::by_key(key)?).await?.is_some() {
        assert!(started.elapsed() < within, "still held after {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Retries until the fault is over.
async fn eventually<T, F: Future<Output = Result<T, LockError>>>(mut call: impl FnMut() -> F) -> T {
    let started = Instant::now();
    loop {
        match call().await {
            Ok(result) => return result,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no service 60 s after the fault");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Loads the scripts of acquire, extend and release into the shared server. It answers `NOSCRIPT` to an unknown
/// script, and a test that cuts the reply would cut that answer, before any effect.
async fn scripts_known() -> Result<()> {
    let backend = backend(shared()).await;
    let lock = take(&backend, &fresh("scripts"), 60_000).await;
    let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
    assert!(backend.extend(extend).await?.is_extended());
    assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// `$50`, a lock id, a fence and an expiry, and two line ends.
const ACQUIRE_REPLY: usize = 5 + 22 + 15 + 13 + 2;
/// An expiry as a number.
const EXTEND_REPLY: usize = 1 + 13 + 2;
const RELEASE_REPLY: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_cut_at_any_byte_of_its_reply_leaves_no_lock() -> Result<()> {
    scripts_known().await?;
    let mut cases = JoinSet::new();
    for cut in 0..=ACQUIRE_REPLY {
        cases.spawn(async move {
            let direct = backend(shared()).await;
            let proxy = FaultProxy::start(shared().port())?;
            let backend = through_with(&proxy, patient()).await?;
            let key = fresh("cut-acquire");
            proxy.set_reply_cut(ReplyCut::Once(cut));
            let started = Instant::now();
            let result = backend.acquire(request(&key, 3_600_000)).await;
            assert!(started.elapsed() < SLACK, "an error at once, long before the timeout");
            if cut == ACQUIRE_REPLY {
                assert!(result?.is_acquired());
                return Ok(());
            }
            let error = result.unwrap_err();
            assert!(error.is_outcome_unknown() && error.is_retryable(), "{cut}: {error:?}");
            freed(&direct, &key, Duration::from_secs(60)).await?;
            assert_eq!(take(&direct, &key, 1000).await.fence.get(), 2, "it had been granted");
            assert_eq!(proxy.counters().cuts, 1);
            eventually(|| backend.is_locked(IsLockedRequest::new("x").unwrap())).await;
            anyhow::Ok(())
        });
    }
    while let Some(result) = cases.join_next().await {
        result??;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_acquire_gets_the_lock_its_first_reply_was_about() -> Result<()> {
    scripts_known().await?;
    let proxy = FaultProxy::start(shared().port())?;
    let backend = through(&proxy).await?;
    let key = fresh("repeated");
    let request = request(&key, 60_000);
    proxy.set_reply_cut(ReplyCut::Once(0));
    backend.acquire(request.repeat()).await.unwrap_err();
    // The acquire races with the background release: it finds either the first lock or, after its release, a new one.
    let again =
        eventually(|| backend.acquire(request.repeat())).await.acquired().context("ours")?;
    assert!(again.fence.get() <= 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_or_extend_cut_at_any_byte_happened_and_can_be_repeated() -> Result<()> {
    scripts_known().await?;
    let mut cases = JoinSet::new();
    for cut in 0..=EXTEND_REPLY {
        cases.spawn(async move {
            let direct = backend(shared()).await;
            let proxy = FaultProxy::start(shared().port())?;
            let backend = through_with(&proxy, patient()).await?;
            let key = fresh("cut-extend");
            let lock = take(&backend, &key, 60_000).await;
            let extend = || ExtendRequest::new(lock.lock_id, Duration::from_secs(600)).unwrap();
            proxy.set_reply_cut(ReplyCut::Once(cut));
            let started = Instant::now();
            let result = backend.extend(extend()).await;
            assert!(started.elapsed() < SLACK, "an error at once, long before the timeout");
            assert_eq!(result.is_ok(), cut == EXTEND_REPLY, "{cut}: {result:?}");
            if let Err(error) = result {
                assert!(error.is_outcome_unknown(), "{error:?}");
            }
            let found = direct.lookup(LookupRequest::by_key(&key)?).await?.context("held")?;
            assert!(found.expires_at.as_millis() > lock.expires_at.as_millis() + 500_000);
            assert!(eventually(|| backend.extend(extend())).await.is_extended());

            if cut > RELEASE_REPLY {
                return Ok(());
            }
            let release = || ReleaseRequest::new(lock.lock_id);
            proxy.set_reply_cut(ReplyCut::Once(cut));
            let result = backend.release(release()).await;
            assert_eq!(result.is_ok(), cut == RELEASE_REPLY, "{cut}: {result:?}");
            assert!(direct.lookup(LookupRequest::by_key(&key)?).await?.is_none());
            let again = eventually(|| backend.release(release())).await;
            assert_eq!(again, ReleaseResult::NotHeld(NotHeld::NotFound));
            anyhow::Ok(())
        });
    }
    while let Some(result) = cases.join_next().await {
        result??;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_and_fences_survive_a_kill_with_the_append_only_file() -> Result<()> {
    let _alone = alone().await;
    // Not `everysec`: while the disk is slow to sync, Redis then delays its writes, too, for up to two seconds, and a
    // kill loses them.
    let mut server = RedisServer::builder().append_only(AppendOnly::Always).start()?;
    let backend = backend_with(&server, quick()).await;
    // Each write waits for the disk, so what must succeed has more time.
    let other = backend_with(&server, patient()).await;
    let history = History::default();
    let held = take(&other, "held", 600_000).await;
    for round in 0..either(2, 4) {
        let load: Vec<_> = (0..8).map(|_| load(&backend, "hot", &history)).collect();
        history.more(10).await;
        server.kill()?;
        let started = Instant::now();
        assert!(backend.acquire(request("down", 1000)).await.is_err());
        assert!(started.elapsed() < COMMAND_TIMEOUT + SLACK);
        server.restart()?;
        eventually(|| backend.is_locked(IsLockedRequest::new("x").unwrap())).await;
        history.more(10).await;
        stopped(load).await;
        let lookup = || LookupRequest::by_lock_id(held.lock_id);
        let found = eventually(|| other.lookup(lookup())).await;
        assert_eq!(found.context("still held")?.fence, held.fence, "round {round}");
    }
    history.check();
    freed(&other, "hot", SLACK).await?;
    assert!(other.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    Ok(())
}

/// Takes and releases a lock for ever.
fn load(backend: &RedisBackend, key: &str, history: &History) -> JoinHandle<()> {
    let (backend, key, history) = (backend.clone(), key.to_owned(), history.clone());
    tokio::spawn(async move {
        loop {
            let started = Instant::now();
            let result = history.cycle(&backend, &key, Duration::from_secs(2)).await;
            // An acquire and a release.
            assert!(started.elapsed() < 2 * (COMMAND_TIMEOUT + SLACK), "{:?}", started.elapsed());
            if !matches!(result, Ok(true)) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    })
}

/// Ends a load; a failure in one of its tasks fails the test.
async fn stopped(load: Vec<JoinHandle<()>>) {
    for task in load {
        task.abort();
        if let Err(end) = task.await
            && end.is_panic()
        {
            std::panic::resume_unwind(end.into_panic());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_answers_within_the_bound_and_grants_nothing_twice() -> Result<()> {
    let _alone = alone().await;
    let mut server = RedisServer::start()?;
    let backend = backend_with(&server, quick()).await;
    let history = History::default();
    let load: Vec<_> = (0..8).map(|_| load(&backend, "hot", &history)).collect();
    for _ in 0..2 {
        history.more(20).await;
        server.pause()?;
        let mut calls = JoinSet::new();
        for number in 0..20 {
            let backend = backend.clone();
            calls.spawn(async move {
                let started = Instant::now();
                let request = request(&format!("paused-{number}"), 60_000);
                let error = backend.acquire(request).await.unwrap_err();
                (error, started.elapsed())
            });
        }
        while let Some(result) = calls.join_next().await {
            let (error, took) = result?;
            assert!(error.is_retryable(), "{error:?}");
            assert!(took < COMMAND_TIMEOUT + SLACK, "{took:?}");
        }
        tokio::time::sleep(3 * COMMAND_TIMEOUT).await;
        server.resume()?;
        eventually(|| backend.is_locked(IsLockedRequest::new("x").unwrap())).await;
        // The requests to the paused server were carried out when it woke up, and are undone.
        let direct = backend_with(&server, RedisOptions::new()).await;
        for number in 0..20 {
            freed(&direct, &format!("paused-{number}"), Duration::from_secs(8)).await?;
        }
    }
    stopped(load).await;
    history.check();
    freed(&backend, "hot", Duration::from_secs(4)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_under_load_are_not_noticed() -> Result<()> {
    let _alone = alone().await;
    let server = RedisServer::start()?;
    let backend = backend_with(&server, RedisOptions::new().with_connections(2)).await;
    let raw = Raw::connect(&server.url()).await;
    let histories: Vec<_> = (0..4).map(|_| History::default()).collect();
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let (backend, history) = (backend.clone(), histories[task % 4].clone());
        let done = Arc::clone(&done);
        tasks.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let key = format!("key-{}", task % 4);
                if !history.cycle(&backend, &key, Duration::from_secs(5)).await? {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Ok::<_, LockError>(())
        });
    }
    let started = Instant::now();
    let mut flushes = 0;
    while flushes < 200 || histories.iter().any(|history| history.count() < 100) {
        raw.send("SCRIPT", &["FLUSH"]).await;
        flushes += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(started.elapsed() < Duration::from_secs(30));
    }
    done.store(true, Ordering::Relaxed);
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    histories.iter().for_each(History::check);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_break_no_rule() -> Result<()> {
    let _alone = alone().await;
    let server = RedisServer::start()?;
    let backend = backend_with(&server, quick().with_connections(2)).await;
    let (raw, history) = (Raw::connect(&server.url()).await, History::default());
    let load: Vec<_> = (0..16).map(|_| load(&backend, "hot", &history)).collect();
    for _ in 0..25 {
        history.more(1).await;
        raw.send("CLIENT", &["KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    }
    stopped(load).await;
    history.check();
    freed_eventually(&backend, "hot").await;
    Ok(())
}

/// Waits until the key is free, over a connection that may not be open yet.
async fn freed_eventually(backend: &RedisBackend, key: &str) {
    let started = Instant::now();
    while eventually(|| backend.is_locked(IsLockedRequest::new(key).unwrap())).await {
        assert!(started.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_on_which_nothing_comes_back_is_replaced_under_load() -> Result<()> {
    let _alone = alone().await;
    let proxy = FaultProxy::start(shared().port())?;
    let (backend, key, history) = (through(&proxy).await?, fresh("frozen"), History::default());
    let load: Vec<_> = (0..8).map(|_| load(&backend, &key, &history)).collect();
    history.more(10).await;
    let before = proxy.counters().connections;
    proxy.freeze(true);
    tokio::time::sleep(3 * COMMAND_TIMEOUT).await;
    proxy.freeze(false);
    history.more(10).await;
    stopped(load).await;
    history.check();
    let opened = proxy.counters().connections - before;
    assert!((1..=10).contains(&opened), "{opened} connections in place of one");
    freed(&backend, &key, Duration::from_secs(4)).await
}

#[tokio::test]
async fn connections_close_with_the_last_clone() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let clients = async || {
        let list = raw.text("CLIENT", &["LIST", "TYPE", "normal"]).await.unwrap();
        list.lines().count()
    };
    let settle_at = async |count: usize| {
        let started = Instant::now();
        while clients().await != count {
            assert!(started.elapsed() < Duration::from_secs(5), "{} clients", clients().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    settle_at(1).await;
    let options = RedisOptions::new().with_connections(3);
    let backend = backend_with(&server, options).await;
    settle_at(4).await;
    let clone = backend.clone();
    drop(backend);
    let _ = take(&clone, "k", 1000).await;
    settle_at(4).await;
    drop(clone);
    settle_at(1).await;
    Ok(())
}

/// Drops such futures after one poll, after two and so on, until a future completes.
async fn dropped_after_every_poll<F: Future>(make: impl Fn(usize) -> F) -> usize {
    for polls in 0..200 {
        if poll_times(make(polls), polls).await.is_some() {
            return polls;
        }
    }
    panic!("a future that never ends");
}

#[tokio::test]
async fn futures_dropped_after_any_poll_leave_no_lock() -> Result<()> {
    // A delay, so that the answer spends some time on the network.
    let proxy = FaultProxy::start(shared().port())?;
    proxy.set_latency(Duration::from_millis(5), Duration::from_millis(5));
    let (backend, direct) = (through(&proxy).await?, backend(shared()).await);
    let prefix = fresh("dropped");
    let key = |polls: usize| format!("{prefix}-{polls}");

    let ended = dropped_after_every_poll(|polls| {
        let (backend, key) = (backend.clone(), key(polls));
        async move { backend.acquire(request(&key, 60_000)).await.map(drop) }
    })
    .await;
    assert!(ended >= 2);
    for polls in 0..ended {
        freed(&direct, &key(polls), Duration::from_secs(2)).await?;
    }

    let ended = dropped_after_every_poll(|polls| {
        let (backend, direct, key) = (backend.clone(), direct.clone(), key(1000 + polls));
        async move {
            // The key is held at first, so that some futures are dropped in a pause.
            let blocker = take(&direct, &key, 60_000).await;
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(30)).await;
                direct.release(ReleaseRequest::new(blocker.lock_id)).await
            });
            let options = AcquisitionOptions::new().with_retry_delay(Duration::from_millis(20));
            let config = LockConfig::new(key).with_acquisition(options);
            lock(&backend, config, async |_| tokio::task::yield_now().await).await
        }
    })
    .await;
    assert!(ended >= 4, "{ended}");
    for polls in 0..=ended {
        freed(&direct, &key(1000 + polls), Duration::from_secs(2)).await?;
    }

    let lock = take(&direct, &prefix, 60_000).await;
    let ended = dropped_after_every_poll(|polls| {
        let backend = backend.clone();
        let ttl = Duration::from_secs(1000 + polls as u64);
        async move { backend.extend(ExtendRequest::new(lock.lock_id, ttl)?).await.map(drop) }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let found = direct.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.context("held")?;
    let lives = found.expires_at.as_millis() - lock.expires_at.as_millis() + 60_000;
    assert!(lives >= 1_000_000 + 1000 * (ended as u64 - 1), "each that was sent took effect");
    assert!(direct.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

#[tokio::test]
async fn a_killed_client_blocks_nobody_for_longer_than_its_lock() -> Result<()> {
    let server = RedisServer::start()?;
    let backend = backend(&server).await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_hold-a-lock"))
        .args([server.url().as_str(), "killed", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = BufReader::new(child.stdout.take().context("its output")?);
    let held = output.lines().map_while(Result::ok).any(|line| line == "HELD");
    let started = Instant::now();
    child.kill()?;
    child.wait()?;
    assert!(held);
    assert!(!backend.acquire(request("killed", 1000)).await?.is_acquired(), "held by the dead");
    freed(&backend, "killed", Duration::from_millis(2500)).await?;
    assert!(started.elapsed() > Duration::from_millis(1500), "{:?}", started.elapsed());
    assert_eq!(take(&backend, "killed", 1000).await.fence.get(), 2);
    Ok(())
}
