//! Statements that the server carries out after their sender has moved on.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{
    AutoExtend, ErrorCode, ExtendResult, LockBackend as _, LockConfig, LockId, PostgresBackend,
    acquire, lock, try_acquire,
};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::{FaultProxy, Hold};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::postgres::support::{
    MINUTE, Tables, connect, is_quiet, pool, request, settles, shared, take, url_of, waiters,
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A backend behind a proxy, with this many connections that have all statements prepared.
async fn behind(
    proxy: &FaultProxy,
    tables: &Tables,
    connections: usize,
    statement: Duration,
) -> Result<PostgresBackend> {
    drop(tables.backend(1).await);
    let connected = pool(&url_of(proxy.port()), connections);
    let with_limit = |statement| {
        let options = tables.options().with_statement_timeout(statement);
        PostgresBackend::from_pool(connected.clone(), options).expect("options in range")
    };
    let (backend, patient) = (with_limit(statement), with_limit(MINUTE));
    let begun = Instant::now();
    loop {
        prepare(&patient, connections).await?;
        // With an answer in time, the backend knows the server's clock.
        match backend.release(ReleaseRequest::new(LockId::generate()?)).await {
            Ok(_) => return Ok(backend),
            Err(error) => ensure!(begun.elapsed() < MINUTE, "{error:?}"),
        }
    }
}

/// Opens this many connections, and prepares all statements on each of them.
async fn prepare(backend: &PostgresBackend, connections: usize) -> Result<()> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(backend.pool().get().await?);
    }
    for round in 0..connections {
        // The only connection that is free.
        drop(clients.remove(0));
        let lock = take(backend, &format!("warm {round}")).await;
        ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
        ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        clients.push(backend.pool().get().await?);
    }
    Ok(())
}

/// Tables of the test's own, a backend behind a proxy, and a direct connection.
struct Stage {
    tables: Tables,
    proxy: FaultProxy,
    backend: PostgresBackend,
    admin: Client,
}

async fn stage(connections: usize, statement: Duration) -> Result<Stage> {
    let tables = Tables::fresh();
    let proxy = FaultProxy::start(shared().port())?;
    let backend = behind(&proxy, &tables, connections, statement).await?;
    Ok(Stage { tables, proxy, backend, admin: connect(&shared().url()).await })
}

async fn until_held(proxy: &FaultProxy, count: usize) {
    while proxy.held() < count {
        sleep(ms(2)).await;
    }
}

/// How long the server still keeps a lock.
async fn kept_for(admin: &Client, tables: &Tables, key: &str) -> Result<Duration> {
    let sql = format!(
        "SELECT (expires_at_ms - extract(epoch FROM clock_timestamp()) * 1000)::bigint
         FROM {} WHERE key = $1",
        tables.locks
    );
    let left: i64 = admin.query_one(&sql, &[&key]).await?.get(0);
    Ok(Duration::from_millis(u64::try_from(left)?))
}

/// The number of locks whose keys match.
async fn orphans(admin: &Client, tables: &Tables, like: &str) -> Result<i64> {
    let sql = format!("SELECT count(*) FROM {} WHERE key LIKE $1", tables.locks);
    Ok(admin.query_one(&sql, &[&like]).await?.get(0))
}

/// Checks that a key stays free for a while.
async fn stays_free(admin: &Client, tables: &Tables, key: &str, time: Duration) -> Result<()> {
    let ends = Instant::now() + time;
    while Instant::now() < ends {
        ensure!(orphans(admin, tables, key).await? == 0, "a ghost");
        sleep(ms(20)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_extend_never_shortens_what_a_later_one_promised() -> Result<()> {
    let Stage { tables, proxy, backend, admin } = stage(3, ms(5_000)).await?;

    let mut guard = acquire(&backend, LockConfig::new("extend").with_ttl(MINUTE)).await?;
    proxy.hold(Hold::Next);
    ensure!(timeout(ms(100), guard.extend(ms(3_000))).await.is_err());
    until_held(&proxy, 1).await;
    ensure!(guard.extend(MINUTE).await?.is_extended());
    proxy.deliver();
    sleep(ms(300)).await;
    let promised = guard.valid_for();
    ensure!(promised > ms(50_000), "{promised:?}");
    let kept = kept_for(&admin, &tables, "extend").await?;
    ensure!(kept >= guard.valid_for(), "promised {promised:?}, kept {kept:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_renewal_never_shortens_an_extend_of_the_holder() -> Result<()> {
    let Stage { tables, proxy, backend, admin } = stage(3, ms(5_000)).await?;
    let config = LockConfig::new("renewal").with_ttl(ms(15_000));
    let mut guard = acquire(&backend, config.with_auto_extend(AutoExtend::new())).await?;
    proxy.hold(Hold::Next);
    until_held(&proxy, 1).await;
    // The renewal task gives up the stuck renewal; then the holder's own extend uses another connection.
    ensure!(guard.extend(MINUTE).await?.is_extended());
    proxy.deliver();
    sleep(ms(300)).await;
    let promised = guard.valid_for();
    ensure!(promised > ms(50_000), "{promised:?}");
    ensure!(kept_for(&admin, &tables, "renewal").await? >= guard.valid_for());
    Ok(())
}

#[tokio::test]
async fn a_late_extend_by_hand_finds_another_expiry() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(2).await;
    let held = take(&backend, "by hand").await;
    let extend = |ttl| ExtendRequest::new(held.lock_id, ttl);
    let known = held.expires_at;
    sleep(ms(5)).await;
    let later = backend.extend(extend(MINUTE * 2)?.with_expected_expiry(known)).await?;
    let ExtendResult::Extended { expires_at } = later else { panic!("{later:?}") };
    let late = backend.extend(extend(ms(1_000))?.with_expected_expiry(known)).await?;
    ensure!(late == ExtendResult::Mismatch { expires_at });
    let found = backend.lookup(LookupRequest::by_lock_id(held.lock_id)).await?.context("live")?;
    ensure!(found.expires_at == expires_at);
    ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    let gone = backend.extend(extend(MINUTE)?.with_expected_expiry(expires_at)).await?;
    ensure!(matches!(gone, ExtendResult::NotHeld(_)), "{gone:?}");
    Ok(())
}

/// Each write, delivered long after its sender has given it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_statements_write_nothing() -> Result<()> {
    const BOUND: Duration = ms(400);
    let tables = Tables::fresh();
    let admin = connect(&shared().url()).await;
    for operation in ["acquire", "extend", "release"] {
        for severed in [false, true] {
            let proxy = FaultProxy::start(shared().port())?;
            let backend = behind(&proxy, &tables, 1, BOUND).await?;
            let direct = tables.backend(1).await;
            let key = format!("{operation} {severed}");
            let held = match operation {
                "acquire" => None,
                _ => Some(take(&direct, &key).await),
            };
            proxy.hold(Hold::Open);
            let sent = Instant::now();
            let result = {
                let request = request(&key, MINUTE * 60);
                let send = async {
                    match (operation, held) {
                        ("acquire", _) => backend.acquire(request).await.map(drop),
                        ("extend", Some(held)) => {
                            let extend = ExtendRequest::new(held.lock_id, ms(1))?;
                            backend.extend(extend).await.map(drop)
                        }
                        (_, Some(held)) => {
                            backend.release(ReleaseRequest::new(held.lock_id)).await.map(drop)
                        }
                        (_, None) => Ok(()),
                    }
                };
                timeout(BOUND * 2, send).await
            };
            ensure!(!matches!(result, Ok(Ok(()))), "{key}: nothing can have been answered");
            until_held(&proxy, 1).await;
            if severed {
                proxy.sever_clients();
            }
            // The deadline has passed, by the server's clock too.
            sleep((BOUND * 2 + ms(200)).saturating_sub(sent.elapsed())).await;
            ensure!(proxy.deliver() > 0);
            sleep(ms(300)).await;
            let found = direct.lookup(LookupRequest::by_key(&key)?).await?;
            match held {
                None => ensure!(found.is_none(), "{key}: a late acquire took a lock"),
                Some(held) => {
                    let found = found.with_context(|| format!("{key}: it is gone"))?;
                    ensure!(found.expires_at == held.expires_at, "{key}: it was changed");
                    ensure!(direct.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
                }
            }
            settles(&admin, &tables).await?;
        }
    }
    Ok(())
}

/// An acquire that waits in the server until its sender has given it up, without any further message to the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_whose_turn_comes_late_takes_nothing() -> Result<()> {
    const BOUND: Duration = ms(2_000);
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let mut admin = connect(&shared().url()).await;
    let watch = connect(&shared().url()).await;
    let proxy = FaultProxy::start(shared().port())?;
    // The role's own lock timeout stays, however long it is.
    let url = format!("{}?options=-c%20lock_timeout%3D60s", url_of(proxy.port()));
    let connected = pool(&url, 1);
    let patient = PostgresBackend::from_pool(connected.clone(), tables.options());
    let _ = take(&patient.expect("options in range"), "prepared").await;
    let options = tables.options().with_statement_timeout(BOUND);
    let backend = PostgresBackend::from_pool(connected, options).expect("options in range");
    let _ = take(&backend, "clock").await;
    // No cancellation will arrive: that needs another connection.
    proxy.refuse();

    let turn = admin.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext('turn'))", &[]).await?;
    let sent = Instant::now();
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request("turn", MINUTE * 60)).await }
    });
    waiters(&watch, &tables.locks, 1).await;
    ensure!(acquire.await?.is_err());
    sleep((BOUND * 2).saturating_sub(sent.elapsed())).await;
    waiters(&watch, &tables.locks, 1).await;
    turn.rollback().await?;
    is_quiet(&watch, &tables).await?;
    ensure!(tables.counter(&watch, "turn").await == 0, "it took a lock");
    Ok(())
}

/// An acquire is sent, cut off, resent, granted and released; then the first request arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_first_sending_leaves_no_ghost_of_a_released_lock() -> Result<()> {
    let Stage { tables, proxy, backend, admin } = stage(1, ms(1_500)).await?;
    for wait in [ms(0), ms(2_000)] {
        proxy.hold(Hold::Open);
        let acquired = tokio::spawn({
            let backend = backend.clone();
            async move { backend.acquire(request("ghost", MINUTE * 60)).await }
        });
        until_held(&proxy, 1).await;
        proxy.sever_clients();
        let held = acquired.await??.acquired().context("the second sending is granted")?;
        ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
        sleep(wait).await;
        ensure!(proxy.deliver() == 1);
        if wait.is_zero() {
            // Within the server's deadline: the clean-up releases the lock.
            sleep(ms(300)).await;
            settles(&admin, &tables).await?;
        }
        stays_free(&admin, &tables, "ghost", ms(1_800)).await?;
        ensure!(backend.client_state().clean_up().waiting() == 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_stopped_leaves_no_late_orphans() -> Result<()> {
    const KEYS: usize = 20;
    let mut server = PostgresServer::builder().config("fsync = off").start()?;
    let tables = Tables::fresh();
    let options = tables.options().with_statement_timeout(ms(500)).with_pool_wait_timeout(ms(500));
    drop(tables.backend_at(&server.url(), 1).await);
    let backend = PostgresBackend::from_pool(pool(&server.url(), KEYS + 1), options)
        .expect("options in range");
    let mut clients = Vec::new();
    for _ in 0..=KEYS {
        clients.push(backend.pool().get().await?);
    }
    drop(clients);
    let _ = take(&backend, "clock").await;
    server.pause()?;
    let mut tasks = JoinSet::new();
    for key in 0..KEYS {
        let backend = backend.clone();
        tasks.spawn(async move {
            let config = LockConfig::new(format!("stopped {key}")).with_ttl(MINUTE * 60);
            acquire(&backend, config).await.map(drop)
        });
    }
    while let Some(result) = tasks.join_next().await {
        let error = result?.expect_err("nobody answers");
        ensure!(error.code() != ErrorCode::AcquisitionTimeout, "a hang is not contention: {error}");
    }
    sleep(ms(1_500)).await;
    server.resume()?;
    let admin = connect(&server.url()).await;
    sleep(ms(1_000)).await;
    let orphans = orphans(&admin, &tables, "stopped %").await?;
    ensure!(orphans == 0, "{orphans} of {KEYS} keys are orphans");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_the_table_leaves_no_late_orphans() -> Result<()> {
    let tables = Tables::fresh();
    let options = tables.options().with_statement_timeout(ms(400));
    let backend = tables.backend(4).await;
    let _ = take(&backend, "clock").await;
    let backend =
        PostgresBackend::from_pool(pool(&shared().url(), 8), options).expect("options in range");
    let mut admin = connect(&shared().url()).await;
    let watch = connect(&shared().url()).await;
    let transaction = admin.transaction().await?;
    transaction
        .batch_execute(&format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", tables.locks))
        .await?;
    let mut tasks = JoinSet::new();
    for key in 0..6 {
        let backend = backend.clone();
        tasks.spawn(
            async move { backend.acquire(request(&format!("table {key}"), MINUTE * 60)).await },
        );
    }
    waiters(&watch, &tables.locks, 1).await;
    while let Some(result) = tasks.join_next().await {
        ensure!(result?.is_err(), "the table is locked");
    }
    sleep(ms(1_000)).await;
    transaction.rollback().await?;
    sleep(ms(500)).await;
    let orphans = orphans(&watch, &tables, "table %").await?;
    ensure!(orphans == 0, "{orphans} orphans");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_grant_is_no_grant() -> Result<()> {
    let Stage { tables, proxy, backend, admin } = stage(2, ms(5_000)).await?;
    proxy.set_latency(Duration::ZERO, ms(700));
    let error =
        try_acquire(&backend, LockConfig::new("reply").with_ttl(ms(500))).await.unwrap_err();
    ensure!(error.code() == ErrorCode::NetworkTimeout && !error.is_outcome_unknown(), "{error}");
    let config = LockConfig::new("reply").with_ttl(ms(500));
    let worked = lock(&backend, config, async |held| {
        ensure!(!held.is_lost() && !held.valid_for().is_zero(), "work on a lost lock");
        Ok(())
    });
    let heals = async {
        sleep(ms(900)).await;
        proxy.set_latency(Duration::ZERO, Duration::ZERO);
    };
    let (worked, ()) = tokio::join!(worked, heals);
    worked??;
    settles(&admin, &tables).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_a_short_outage_is_not_late_for_long() -> Result<()> {
    let mut server = PostgresServer::builder().config("fsync = off").start()?;
    let tables = Tables::fresh();
    let options = tables.options().with_statement_timeout(ms(2_000)).with_dispose_timeout(MINUTE);
    drop(tables.backend_at(&server.url(), 1).await);
    let backend =
        PostgresBackend::from_pool(pool(&server.url(), 4), options).expect("options in range");
    let config = |key: &str| LockConfig::new(key).with_ttl(60 * MINUTE);
    let released = acquire(&backend, config("released")).await?;
    let dropped = acquire(&backend, config("dropped")).await?;
    let kept = acquire(&backend, config("kept").with_auto_extend(AutoExtend::new())).await?;
    server.kill()?;
    released.release().await.unwrap_err();
    drop((dropped, kept));
    sleep(ms(1_200)).await;
    server.restart()?;
    let back = Instant::now();
    let direct = tables.backend_at(&server.url(), 1).await;
    for key in ["released", "dropped", "kept"] {
        while direct.acquire(request(key, MINUTE)).await?.is_locked() {
            ensure!(back.elapsed() < ms(20_000), "{key} is blocked for {:?}", back.elapsed());
            sleep(ms(20)).await;
        }
    }
    Ok(())
}
