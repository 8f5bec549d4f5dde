//! Connections that are cut, ended and forgotten.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::contract::{
    AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_postgres::{ErrorCode, LockBackend as _, LockError, LockId, PostgresBackend};
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use tokio::task::JoinSet;

use crate::postgres::support::{
    MINUTE, Tables, connect, is_quiet, pool, request, settles, shared, take, url_of, waiters,
};

/// The answer to an operation is cut after each possible number of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_is_cut_at_every_byte() -> Result<()> {
    let tables = Tables::fresh();
    let direct = tables.backend(1).await;
    let admin = connect(&shared().url()).await;
    let proxy = FaultProxy::start(shared().port())?;
    // One connection, which has all statements prepared, so the next reply is the intended one.
    let backend = PostgresBackend::from_pool(pool(&url_of(proxy.port()), 1), tables.options())
        .expect("options in range");
    for operation in ["acquire", "extend", "release", "lookup"] {
        let (mut length, mut unknown) = (0, 0);
        loop {
            let key = format!("{operation} {length}");
            warm(&backend).await?;
            let held = match operation {
                "acquire" => LockId::generate()?,
                _ => take(&backend, &key).await.lock_id,
            };
            let before = proxy.counters().cuts;
            proxy.set_reply_cut(ReplyCut::Once(length));
            let released = match operation {
                "acquire" => {
                    // The resent acquire finds its own lock.
                    let lock = backend.acquire(request(&key, MINUTE).with_lock_id(held)).await?;
                    let lock = lock.acquired().with_context(|| format!("cut at {length}"))?;
                    ensure!(lock.fence.get() == 1, "{length}: a second fence");
                    false
                }
                "extend" => {
                    match backend.extend(ExtendRequest::new(held, MINUTE)?).await {
                        Ok(extend) => ensure!(extend.is_extended(), "cut at {length}"),
                        // The operation is sent once.
                        Err(error) => {
                            ensure!(error.is_outcome_unknown(), "cut at {length}: {error:?}");
                            unknown += 1;
                        }
                    }
                    false
                }
                "release" => match backend.release(ReleaseRequest::new(held)).await {
                    Ok(released) => released.is_released(),
                    // The lock is gone, and it is unknown whether we released it.
                    Err(error) if error.is_outcome_unknown() => {
                        unknown += 1;
                        true
                    }
                    Err(error) => bail!("cut at {length}: {error:?}"),
                },
                _ => {
                    ensure!(backend.lookup(LookupRequest::by_key(&key)?).await?.is_some());
                    false
                }
            };
            proxy.set_reply_cut(ReplyCut::Never);
            let cut = proxy.counters().cuts > before;
            if !released {
                // Also on a connection that breaks after the whole reply. Another client does this: an acquire that
                // was sent twice gets a clean-up after its release, and those replies must not be cut.
                let releases = if operation == "acquire" { &direct } else { &backend };
                let release = releases.release(ReleaseRequest::new(held)).await?;
                ensure!(release.is_released(), "{operation} cut at {length}: {release:?}");
            }
            settles(&admin, &tables).await?;
            if !cut {
                // The reply was shorter, so all its lengths have been tested.
                break;
            }
            length += 1;
        }
        println!("{operation}: cut at {length} places");
        ensure!((30..1000).contains(&length), "{operation}: a reply of {length} bytes");
        // Known only if the whole reply came.
        let is_sent_once = ["extend", "release"].contains(&operation);
        // On a busy machine the driver may have read enough before it notices the cut.
        let known = length - unknown;
        ensure!(!is_sent_once || (1..8).contains(&known), "{unknown} of {length} unknown");
    }
    is_quiet(&admin, &tables).await
}

/// Every statement once on the pool's only connection.
async fn warm(backend: &PostgresBackend) -> Result<()> {
    let lock = take(backend, "warm").await;
    ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
    ensure!(backend.lookup(LookupRequest::by_key("warm")?).await?.is_some());
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// Connections die in the pool silently, as behind a firewall that forgets them. However many they are, no caller
/// sees an error.
#[tokio::test]
async fn connections_that_died_in_the_pool_are_survived() -> Result<()> {
    const CONNECTIONS: usize = 5;
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    for operation in ["acquire", "contended acquire", "extend", "release", "is_locked", "lookup"] {
        // Connections that died before their first statement, and after all statements.
        for known in [false, true] {
            let proxy = FaultProxy::start(shared().port())?;
            let pool = pool(&url_of(proxy.port()), CONNECTIONS);
            let backend =
                PostgresBackend::from_pool(pool, tables.options()).expect("options in range");
            let key = format!("{operation} {known}");
            let held = take(&backend, &key).await.lock_id;
            let free = format!("{key} free");
            backend.pool().retain(|_, _| known);
            let mut idle = Vec::new();
            for _ in 0..CONNECTIONS {
                idle.push(backend.pool().get().await?);
            }
            drop(idle);
            for _ in 0..if known { CONNECTIONS } else { 0 } {
                // By turns, all connections get all statements.
                let lock = take(&backend, &free).await;
                for _ in 1..CONNECTIONS {
                    ensure!(backend.is_locked(IsLockedRequest::new(&free)?).await?);
                }
                for _ in 0..CONNECTIONS {
                    let extend = ExtendRequest::new(lock.lock_id, MINUTE)?;
                    ensure!(backend.extend(extend).await?.is_extended());
                }
                ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
            }
            let before = proxy.counters().connections;
            proxy.forget();
            let context = || format!("{operation}, {known}");
            match operation {
                "acquire" => {
                    let lock =
                        backend.acquire(request(&free, MINUTE)).await.with_context(context)?;
                    ensure!(lock.is_acquired(), "{}", context());
                }
                "contended acquire" => match backend.acquire(request(&key, MINUTE)).await {
                    Ok(result) => ensure!(result.is_locked(), "{}", context()),
                    // The first sending may still be carried out when the key is free.
                    Err(error) => ensure!(known && error.is_outcome_unknown(), "{error:?}"),
                },
                "extend" => {
                    let mut lost = 0;
                    let extended = loop {
                        match backend.extend(ExtendRequest::new(held, MINUTE)?).await {
                            // The statement is sent once over each connection.
                            Err(error) if error.is_outcome_unknown() => lost += 1,
                            extended => break extended.with_context(context)?,
                        }
                    };
                    ensure!(extended.is_extended(), "{}", context());
                    ensure!(lost == if known { CONNECTIONS } else { 0 }, "{lost}: {}", context());
                }
                "release" => {
                    let release = backend.release(ReleaseRequest::new(held)).await;
                    ensure!(release.with_context(context)?.is_released(), "{}", context());
                }
                "is_locked" => {
                    let asked = backend.is_locked(IsLockedRequest::new(&key)?).await;
                    ensure!(asked.with_context(context)?);
                }
                _ => {
                    let asked = backend.lookup(LookupRequest::by_lock_id(held)).await;
                    ensure!(asked.with_context(context)?.is_some());
                }
            }
            ensure!(proxy.counters().connections == before + 1, "{}: one new one", context());
        }
    }
    Ok(())
}

/// Sessions are ended at random during work: one holder at a time, no fence twice, no lock left, and errors with the
/// right codes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_terminated_all_the_time() -> Result<()> {
    const WORKERS: usize = 8;
    let tables = Tables::fresh();
    let pool = tables.backend(4).await.pool().clone();
    let options = tables.options().with_statement_timeout(MINUTE).with_pool_wait_timeout(MINUTE);
    let backend = PostgresBackend::from_pool(pool, options).expect("options in range");
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
                    Ok(AcquireResult::Locked(_) | AcquireResult::Refused(_)) => {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
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
    while started.elapsed() < Duration::from_secs(4)
        || terminated < 100
        || fences.lock().unwrap().len() < 100
    {
        ensure!(started.elapsed() < 2 * MINUTE, "{terminated} sessions terminated");
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
    let fences = fences.lock().unwrap().clone();
    ensure!(fences.windows(2).all(|pair| pair[0] < pair[1]), "fences: {fences:?}");
    settles(&admin, &tables).await?;
    is_quiet(&admin, &tables).await
}

/// A session is terminated during a statement that waits: the statement is resent on another connection and succeeds.
/// An extend is not resent.
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
        if operation == "extend" {
            let error = running.await?.expect_err("an extend is sent once");
            let error = error.downcast::<LockError>()?;
            ensure!(error.is_outcome_unknown(), "{error:?}");
            pin.rollback().await?;
            let extend = ExtendRequest::new(lock.lock_id, MINUTE)?;
            ensure!(backend.extend(extend).await?.is_extended());
            continue;
        }
        waiters(&admin, &tables.locks, 1).await;
        pin.rollback().await?;
        ensure!(running.await??, "{operation}");
    }
    settles(&admin, &tables).await
}

/// The server is cut off for good during a request: nothing hangs, and the lock is free when its time is over at the
/// latest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_severed_network_hangs_nobody() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let proxy = FaultProxy::start(shared().port())?;
    let options = tables.options().with_pool_wait_timeout(Duration::from_millis(300));
    let options = options.with_statement_timeout(Duration::from_millis(300));
    let pool = pool(&url_of(proxy.port()), 4);
    let backend = PostgresBackend::from_pool(pool.clone(), options).expect("options in range");
    let patient = PostgresBackend::from_pool(pool, tables.options().with_statement_timeout(MINUTE))
        .expect("options in range");
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let backend = backend.clone();
        tasks.spawn(async move {
            let mut errors = 0;
            for round in 0..40 {
                let started = Instant::now();
                let key = format!("key {task} {round}");
                let answer = backend.acquire(request(&key, MINUTE)).await;
                ensure!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
                match answer {
                    Ok(AcquireResult::Acquired(lock)) => {
                        // The release may fail too, and then the lock stays.
                        errors += i32::from(
                            backend.release(ReleaseRequest::new(lock.lock_id)).await.is_err(),
                        );
                    }
                    Ok(AcquireResult::Locked(_) | AcquireResult::Refused(_)) => {
                        bail!("a key of its own")
                    }
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
    let _ = patient.is_locked(IsLockedRequest::new("any")?).await?;
    let admin = connect(&shared().url()).await;
    is_quiet(&admin, &tables).await
}

/// A lock id that is released repeatedly is released once, whatever happens to connections.
#[tokio::test]
async fn an_unknown_id_stays_unknown() -> Result<()> {
    let backend = Tables::fresh().backend(1).await;
    let release = backend.release(ReleaseRequest::new(LockId::generate()?)).await?;
    ensure!(!release.is_released());
    Ok(())
}
