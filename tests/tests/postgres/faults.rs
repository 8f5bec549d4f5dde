//! Connections that are cut, servers that die, callers that leave.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{
    AcquireResult, ErrorCode, ExtendRequest, IsLockedRequest, LockBackend as _, LockId,
    LookupRequest, PostgresBackend, ReleaseRequest, ReleaseResult,
};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use tokio::task::JoinSet;

use crate::support::{
    MINUTE, Tables, connect, is_refused, pool, request, shared, take, url_of, waiters,
};

/// Waits until nothing is locked in these tables.
async fn settles(admin: &Client, tables: &Tables) -> Result<()> {
    let sql = format!("SELECT count(*) FROM {}", tables.locks);
    for _ in 0..300 {
        if admin.query_one(&sql, &[]).await?.get::<_, i64>(0) == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("a lock was left behind");
}

/// No session of ours is in the middle of anything.
async fn is_quiet(admin: &Client, tables: &Tables) -> Result<()> {
    let sql = "SELECT state || ': ' || query FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'
          AND query LIKE '%' || $1::text || '%'";
    for _ in 0..300 {
        if admin.query(sql, &[&tables.locks]).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let row = admin.query_one(sql, &[&tables.locks]).await?;
    bail!("{}", row.get::<_, String>(0));
}

/// The answer to an acquire, release and extend is cut after every number of bytes it can have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_is_cut_at_every_byte() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let admin = connect(&shared().url()).await;
    let proxy = FaultProxy::start(shared().port())?;
    let backend = PostgresBackend::new(pool(&url_of(proxy.port()), 2), tables.options());
    for operation in ["acquire", "extend", "release", "lookup"] {
        let mut cuts = 0;
        for at in 0..1000 {
            let key = format!("{operation} {at}");
            let held = match operation {
                "acquire" => None,
                _ => Some(take(&backend, &key).await),
            };
            // The statement must be known on the connection, so that its reply is the next one.
            warm(&backend).await?;
            let before = proxy.counters().cuts;
            proxy.set_reply_cut(ReplyCut::Once(at));
            match (operation, held) {
                ("acquire", _) => {
                    // Sent again, it finds out that it has the lock.
                    let lock = backend.acquire(request(&key, MINUTE)).await?.acquired();
                    let lock = lock.with_context(|| format!("cut at {at}"))?;
                    ensure!(lock.fence.get() == 1, "{at}: a second fence");
                    ensure!(
                        backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released()
                    );
                }
                ("extend", Some(held)) => {
                    let extend = backend.extend(ExtendRequest::new(held.lock_id, MINUTE)?).await?;
                    ensure!(extend.is_extended(), "cut at {at}");
                    ensure!(
                        backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released()
                    );
                }
                ("release", Some(held)) => {
                    match backend.release(ReleaseRequest::new(held.lock_id)).await {
                        Ok(ReleaseResult::Released) => {}
                        // It is gone, and whether we were in time cannot be known.
                        Err(error) if error.is_outcome_unknown() => {}
                        other => bail!("cut at {at}: {other:?}"),
                    }
                }
                (_, Some(held)) => {
                    ensure!(backend.lookup(LookupRequest::by_key(&key)?).await?.is_some());
                    ensure!(
                        backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released()
                    );
                }
                (_, None) => bail!("no lock"),
            }
            proxy.set_reply_cut(ReplyCut::Never);
            if proxy.counters().cuts == before {
                // The reply was shorter: all its bytes have been gone through.
                ensure!(at > 30, "{operation}: a reply of {at} bytes");
                break;
            }
            cuts += 1;
            settles(&admin, &tables).await?;
        }
        println!("{operation}: cut at {cuts} places");
    }
    is_quiet(&admin, &tables).await
}

/// Every statement once on the connection that comes next.
async fn warm(backend: &PostgresBackend) -> Result<()> {
    for _ in 0..2 {
        let lock = take(backend, "warm").await;
        ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
        ensure!(backend.lookup(LookupRequest::by_key("warm")?).await?.is_some());
        ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    Ok(())
}

/// Sessions are ended at random while everybody works: one holder at a time, no fence twice, no
/// lock left, and errors that say what they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_terminated_all_the_time() -> Result<()> {
    const WORKERS: usize = 8;
    let tables = Tables::fresh();
    let backend = tables.backend(4).await;
    let admin = connect(&shared().url()).await;
    let over = Arc::new(AtomicBool::new(false));
    let inside = Arc::new(AtomicUsize::new(0));
    let fences = Arc::new(Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (backend, over) = (backend.clone(), Arc::clone(&over));
        let (inside, fences) = (Arc::clone(&inside), Arc::clone(&fences));
        workers.spawn(async move {
            let (mut done, mut failed) = (0, 0);
            while !over.load(Ordering::SeqCst) {
                match backend.acquire(request("key", MINUTE)).await {
                    Ok(AcquireResult::Acquired(lock)) => {
                        ensure!(inside.fetch_add(1, Ordering::SeqCst) == 0, "two holders");
                        fences.lock().unwrap().push(lock.fence.get());
                        inside.fetch_sub(1, Ordering::SeqCst);
                        while let Err(error) =
                            backend.release(ReleaseRequest::new(lock.lock_id)).await
                        {
                            ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error:?}");
                            failed += 1;
                        }
                        done += 1;
                    }
                    Ok(AcquireResult::Locked) => tokio::time::sleep(Duration::from_millis(1)).await,
                    Err(error) => {
                        ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error:?}");
                        failed += 1;
                    }
                }
            }
            Ok((done, failed))
        });
    }
    let terminate = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
        WHERE query LIKE '%' || $1::text || '%' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) AS t";
    let started = Instant::now();
    let mut terminated = 0;
    while started.elapsed() < Duration::from_secs(6) {
        terminated += admin.query_one(terminate, &[&tables.locks]).await?.get::<_, i64>(0);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    over.store(true, Ordering::SeqCst);
    let (mut done, mut failed) = (0, 0);
    while let Some(worker) = workers.join_next().await {
        let (did, missed) = worker??;
        (done, failed) = (done + did, failed + missed);
    }
    println!("{terminated} sessions terminated, {done} locks held, {failed} errors");
    ensure!(terminated > 100 && done > 100, "{terminated} sessions terminated, {done} locks held");
    let fences = fences.lock().unwrap().clone();
    ensure!(fences.windows(2).all(|pair| pair[0] < pair[1]), "fences: {fences:?}");
    settles(&admin, &tables).await?;
    is_quiet(&admin, &tables).await
}

/// Terminated in the middle of a statement that waits: sent again on another connection, it ends
/// as if nothing had been.
#[tokio::test]
async fn a_session_is_terminated_in_mid_statement() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(2).await;
    let admin = connect(&shared().url()).await;
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1::text || '%' AND pid <> pg_backend_pid()";

    let mut holder = connect(&shared().url()).await;
    let turn = holder.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext('key'))", &[]).await?;
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request("key", MINUTE)).await }
    });
    waiters(&admin, &tables.locks, 1).await;
    admin.execute(terminate, &[&tables.locks]).await?;
    waiters(&admin, &tables.locks, 1).await;
    turn.commit().await?;
    let lock = acquire.await??.acquired().context("a free key")?;
    ensure!(lock.fence.get() == 1);

    for operation in ["extend", "release"] {
        let pin = holder.transaction().await?;
        pin.execute(&format!("SELECT FROM {} FOR UPDATE", tables.locks), &[]).await?;
        let running = tokio::spawn({
            let backend = backend.clone();
            async move {
                match operation {
                    "extend" => {
                        let extend = ExtendRequest::new(lock.lock_id, MINUTE)?;
                        Ok(backend.extend(extend).await?.is_extended())
                    }
                    _ => {
                        let release = ReleaseRequest::new(lock.lock_id);
                        anyhow::Ok(backend.release(release).await?.is_released())
                    }
                }
            }
        });
        waiters(&admin, &tables.locks, 1).await;
        admin.execute(terminate, &[&tables.locks]).await?;
        waiters(&admin, &tables.locks, 1).await;
        pin.rollback().await?;
        ensure!(running.await??, "{operation}");
    }
    settles(&admin, &tables).await
}

/// Killed with everything that was not on disk, although the sessions asked for no durability: what
/// was confirmed is still there, and no fence comes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_forgets_nothing_that_was_confirmed() -> Result<()> {
    const KEYS: usize = 20;
    let mut server = PostgresServer::builder()
        .config("synchronous_commit = off")
        .config("wal_writer_delay = 10s")
        .config("wal_writer_flush_after = 1GB")
        .start()?;
    let tables = Tables::fresh();
    let backend = tables.backend_at(&server.url(), 8).await;
    let mut fences: HashMap<usize, u64> = HashMap::new();
    for crash in 0..3 {
        let confirmed = Arc::new(Mutex::new(HashMap::new()));
        let mut workers = JoinSet::new();
        for worker in 0..KEYS {
            let (backend, confirmed) = (backend.clone(), Arc::clone(&confirmed));
            workers.spawn(async move {
                // Until the server dies, and then the last thing that was confirmed is known.
                let key = format!("key {worker}");
                loop {
                    let Ok(result) = backend.acquire(request(&key, MINUTE)).await else { break };
                    let AcquireResult::Acquired(lock) = result else { continue };
                    confirmed
                        .lock()
                        .unwrap()
                        .insert(worker, (lock.fence.get(), Some(lock.lock_id)));
                    let extend = ExtendRequest::new(lock.lock_id, 10 * MINUTE).expect("a request");
                    let Ok(_) = backend.extend(extend).await else { break };
                    let Ok(released) = backend.release(ReleaseRequest::new(lock.lock_id)).await
                    else {
                        break;
                    };
                    assert!(released.is_released());
                    confirmed.lock().unwrap().insert(worker, (lock.fence.get(), None));
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.kill()?;
        let _ = workers.join_all().await;
        server.restart()?;

        let started = Instant::now();
        while backend.is_locked(IsLockedRequest::new("any")?).await.is_err() {
            ensure!(started.elapsed() < Duration::from_secs(2), "service is not back");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let confirmed = confirmed.lock().unwrap().clone();
        ensure!(confirmed.len() == KEYS, "crash {crash}: {} keys were used", confirmed.len());
        let admin = connect(&server.url()).await;
        for (worker, (fence, held)) in confirmed {
            let key = format!("key {worker}");
            ensure!(
                fences.insert(worker, fence).is_none_or(|before| before < fence),
                "a fence twice"
            );
            let counter = tables.counter(&admin, &key).await;
            ensure!(counter >= i64::try_from(fence)?, "{key}: {counter} after {fence}");
            if let Some(lock_id) = held {
                // It was in our hands when the server died; at most its release had been sent.
                match backend.release(ReleaseRequest::new(lock_id)).await? {
                    ReleaseResult::Released => {}
                    ReleaseResult::NotHeld(_) => {
                        ensure!(!is_refused(&backend, &key).await, "whose?");
                    }
                }
            }
        }
        admin.batch_execute(&format!("DELETE FROM {}", tables.locks)).await?;
    }
    Ok(())
}

/// A confirmed lock, with nothing after it, and then the crash.
#[tokio::test]
async fn a_lock_outlives_the_crash() -> Result<()> {
    let mut server = PostgresServer::builder()
        .config("synchronous_commit = off")
        .config("wal_writer_delay = 10s")
        .config("wal_writer_flush_after = 1GB")
        .start()?;
    let backend = Tables::fresh().backend_at(&server.url(), 2).await;
    let lock = take(&backend, "key").await;
    let ended = take(&backend, "ended").await;
    let extended = backend.extend(ExtendRequest::new(lock.lock_id, 60 * MINUTE)?).await?;
    ensure!(backend.release(ReleaseRequest::new(ended.lock_id)).await?.is_released());
    server.kill()?;
    server.restart()?;
    let found = backend.lookup(LookupRequest::by_key("key")?).await?.context("the lock")?;
    ensure!(
        extended == syncguard_postgres::ExtendResult::Extended { expires_at: found.expires_at }
    );
    ensure!(backend.lookup(LookupRequest::by_key("ended")?).await?.is_none());
    ensure!(take(&backend, "ended").await.fence.get() == 2);
    Ok(())
}

/// A server that stops answering: an error in time, the connection is not used again, and what was
/// taken meanwhile is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_given_up_in_time() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let tables = Tables::fresh();
    drop(tables.backend_at(&server.url(), 1).await);
    let short = Duration::from_millis(300);
    let options = tables.options().with_statement_timeout(short)?.with_pool_wait_timeout(short)?;
    let backend = PostgresBackend::new(pool(&server.url(), 2), options);
    let lock = take(&backend, "held").await;
    server.pause()?;
    let started = Instant::now();
    let error = backend.acquire(request("key", MINUTE)).await.unwrap_err();
    ensure!(error.code() == ErrorCode::NetworkTimeout, "{error}");
    ensure!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let error = backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await.unwrap_err();
    ensure!(error.code() == ErrorCode::NetworkTimeout, "{error}");
    server.resume()?;
    let admin = connect(&server.url()).await;
    ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    // The acquire that nobody heard of may have been carried out when the server woke up.
    settles(&admin, &tables).await?;
    is_quiet(&admin, &tables).await
}

/// The server is shut down in order, and comes back.
#[tokio::test]
async fn a_restart_is_noticed_and_survived() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let backend = Tables::fresh().backend_at(&server.url(), 4).await;
    let lock = take(&backend, "key").await;
    server.stop()?;
    let error = backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await.unwrap_err();
    ensure!(error.code() == ErrorCode::ServiceUnavailable && error.is_retryable(), "{error}");
    server.restart()?;
    // No error for the first who comes: dead connections are not handed out.
    ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// Futures are dropped after every number of polls, over a pool of one connection: the next user of
/// that connection finds it clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_future_leaves_a_clean_connection() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let admin = connect(&shared().url()).await;
    for polls in 0..12 {
        for operation in 0..5 {
            let held = take(&backend, "held").await;
            let id = held.lock_id;
            let ended = match operation {
                0 => poll_times(backend.acquire(request("key", MINUTE)), polls).await,
                1 => poll_times(backend.release(ReleaseRequest::new(id)), polls).await,
                2 => poll_times(backend.extend(ExtendRequest::new(id, MINUTE)?), polls).await,
                3 => poll_times(backend.is_locked(IsLockedRequest::new("held")?), polls).await,
                _ => poll_times(backend.lookup(LookupRequest::by_lock_id(id)), polls).await,
            };
            ensure!(polls > 0 || !ended);
            // The very next statement on the connection, from outside of the library.
            let client = backend.pool().get().await?;
            let (state, xid): (bool, Option<String>) = {
                let sql = "SELECT now() < statement_timestamp() - interval '1 s',
                    pg_current_xact_id_if_assigned()::text";
                let row = client.query_one(sql, &[]).await?;
                (row.get(0), row.get(1))
            };
            ensure!(!state && xid.is_none(), "{operation} after {polls} polls: in a transaction");
            drop(client);
            let _ = backend.release(ReleaseRequest::new(id)).await?;
            if ended && operation == 0 {
                admin.batch_execute(&format!("DELETE FROM {}", tables.locks)).await?;
            }
            settles(&admin, &tables).await?;
        }
    }
    is_quiet(&admin, &tables).await?;
    ensure!(backend.pool().status().size == 1);
    Ok(())
}

/// Polls a future so many times at most, and drops it. Whether it had ended.
async fn poll_times(future: impl Future, polls: usize) -> bool {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        let ended =
            std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready()));
        if ended.await {
            return true;
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    false
}

/// An acquire that is given up while it waits for a connection is never sent.
#[tokio::test]
async fn what_was_not_sent_when_it_was_dropped_is_never_sent() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let admin = connect(&shared().url()).await;
    let busy = backend.pool().get().await?;
    ensure!(!poll_times(backend.acquire(request("key", MINUTE)), 3).await);
    drop(busy);
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure!(tables.counter(&admin, "key").await == 0, "it was sent");
    ensure!(backend.pool().status().available == 1);
    Ok(())
}

/// Cut off from the server for good while it is being asked: nothing hangs, and the lock is free
/// when its time is over at the latest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_severed_network_hangs_nobody() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let proxy = FaultProxy::start(shared().port())?;
    let options = tables.options().with_pool_wait_timeout(Duration::from_millis(300))?;
    let options = options.with_statement_timeout(Duration::from_millis(300))?;
    let backend = PostgresBackend::new(pool(&url_of(proxy.port()), 4), options);
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let backend = backend.clone();
        tasks.spawn(async move {
            let mut errors = 0;
            for round in 0..40 {
                let started = Instant::now();
                let key = format!("key {task} {round}");
                let answer = backend.acquire(request(&key, MINUTE)).await;
                ensure!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
                match answer {
                    Ok(AcquireResult::Acquired(lock)) => {
                        // The release may fail too, and the lock then stays.
                        errors += i32::from(
                            backend.release(ReleaseRequest::new(lock.lock_id)).await.is_err(),
                        );
                    }
                    Ok(AcquireResult::Locked) => bail!("a key of its own"),
                    Err(_) => errors += 1,
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(errors)
        });
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        proxy.sever();
        tokio::time::sleep(Duration::from_millis(150)).await;
        proxy.half_close();
        tokio::time::sleep(Duration::from_millis(150)).await;
        proxy.freeze(true);
        proxy.refuse();
        tokio::time::sleep(Duration::from_millis(400)).await;
        proxy.sever();
        proxy.freeze(false);
        proxy.accept()?;
    }
    let mut errors = 0;
    while let Some(task) = tasks.join_next().await {
        errors += task??;
    }
    ensure!(errors > 10, "the faults were not noticed");
    ensure!(backend.is_locked(IsLockedRequest::new("any")?).await.is_ok());
    let admin = connect(&shared().url()).await;
    is_quiet(&admin, &tables).await
}

/// A lock id that is released again and again is released once, whatever happens to connections.
#[tokio::test]
async fn an_unknown_id_stays_unknown() -> Result<()> {
    let backend = Tables::fresh().backend(1).await;
    let release = backend.release(ReleaseRequest::new(LockId::generate()?)).await?;
    ensure!(!release.is_released());
    Ok(())
}
