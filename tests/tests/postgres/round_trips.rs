//! The messages on the wire.

#![allow(clippy::unit_arg, reason = "each step is one expression")]

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_postgres::{LockBackend as _, PostgresBackend, PostgresOptions};
use syncguard_test_services::postgres::PgBouncer;
use syncguard_test_services::proxy::FaultProxy;

use crate::postgres::support::{
    MINUTE, Tables, is_refused, pool, request, shared, shared_pooler, take, url_of,
};

#[tokio::test]
async fn every_operation_is_one_round_trip() -> Result<()> {
    let tables = Tables::fresh();
    let plain = tables.options();
    count(&tables, shared().port(), plain.clone()).await?;
    count(&tables, shared().port(), plain.clone().with_unprepared_statements(true)).await?;
    let pooler: &PgBouncer = shared_pooler();
    count(&tables, pooler.port(), plain.with_unprepared_statements(true)).await
}

async fn count(tables: &Tables, port: u16, options: PostgresOptions) -> Result<()> {
    drop(tables.backend(1).await);
    let proxy = FaultProxy::start(port)?;
    let backend = PostgresBackend::from_pool(pool(&url_of(proxy.port()), 1), options)
        .expect("options in range");
    // The first time, a connection is opened and statements are prepared.
    each(&backend, "key", async |_, operation| operation.await).await?;
    each(&backend, "key", async |name, operation| {
        let before = proxy.counters();
        operation.await?;
        let seen = proxy.counters() - before;
        assert_eq!(seen.flights, 1, "{name}");
        assert_eq!(seen.connections, 0, "{name}");
        Ok(())
    })
    .await
}

type Operation<'a> = std::pin::Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Every operation with each of its results.
async fn each(
    backend: &PostgresBackend,
    key: &str,
    run: impl AsyncFn(&str, Operation<'_>) -> Result<()>,
) -> Result<()> {
    let mut lock = None;
    run("acquire", Box::pin(async { Ok(lock = Some(take(backend, key).await)) })).await?;
    let id = lock.context("a lock")?.lock_id;
    run("contended acquire", Box::pin(async { Ok(assert!(is_refused(backend, key).await)) }))
        .await?;
    let same = request(key, MINUTE).with_lock_id(id);
    run(
        "repeated acquire",
        Box::pin(async { Ok(assert!(backend.acquire(same).await?.is_acquired())) }),
    )
    .await?;
    let extend = ExtendRequest::new(id, MINUTE)?;
    run("extend", Box::pin(async { Ok(assert!(backend.extend(extend).await?.is_extended())) }))
        .await?;
    let asked = IsLockedRequest::new(key)?;
    run("is_locked", Box::pin(async { Ok(assert!(backend.is_locked(asked).await?)) })).await?;
    for looked in [LookupRequest::by_key(key)?, LookupRequest::by_lock_id(id)] {
        run("lookup", Box::pin(async { Ok(assert!(backend.lookup(looked).await?.is_some())) }))
            .await?;
    }
    let release = ReleaseRequest::new(id);
    run("release", Box::pin(async { Ok(assert!(backend.release(release).await?.is_released())) }))
        .await?;
    let again = ReleaseRequest::new(id);
    run(
        "late release",
        Box::pin(async { Ok(assert!(!backend.release(again).await?.is_released())) }),
    )
    .await?;
    let late = ExtendRequest::new(id, MINUTE)?;
    run("late extend", Box::pin(async { Ok(assert!(!backend.extend(late).await?.is_extended())) }))
        .await?;
    for looked in [LookupRequest::by_key(key)?, LookupRequest::by_lock_id(id)] {
        run(
            "empty lookup",
            Box::pin(async { Ok(assert!(backend.lookup(looked).await?.is_none())) }),
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_operation_takes_as_long_as_the_way() -> Result<()> {
    const WAY: Duration = Duration::from_millis(40);
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let proxy = FaultProxy::start(shared().port())?;
    let backend = PostgresBackend::from_pool(pool(&url_of(proxy.port()), 1), tables.options())
        .expect("options in range");
    each(&backend, "key", async |_, operation| operation.await).await?;
    proxy.set_latency(WAY, WAY);
    // A busy machine delays some of them, but not always the same.
    let fast = RefCell::new(HashSet::new());
    for _ in 0..10 {
        let slow = Cell::new(None);
        each(&backend, "key", async |name, operation| {
            let started = Instant::now();
            operation.await?;
            let took = started.elapsed();
            ensure!(took >= 2 * WAY, "{name} took {took:?}");
            if took < 4 * WAY {
                fast.borrow_mut().insert(name.to_owned());
            } else if !fast.borrow().contains(name) {
                slow.set(Some((name.to_owned(), took)));
            }
            Ok(())
        })
        .await?;
        let Some((name, took)) = slow.take() else { return Ok(()) };
        println!("{name} took {took:?}");
    }
    bail!("two round trips");
}

/// A takeover of an expired row is a single round trip too.
#[tokio::test]
async fn a_takeover_is_one_round_trip() -> Result<()> {
    let tables = Tables::fresh();
    let proxy = FaultProxy::start(shared().port())?;
    let backend = tables.backend_at(&url_of(proxy.port()), 1).await;
    let admin = crate::postgres::support::connect(&shared().url()).await;
    for fence in 1..4 {
        let before = proxy.counters();
        let lock = take(&backend, "key").await;
        assert_eq!(lock.fence.get(), fence);
        if fence > 1 {
            assert_eq!((proxy.counters() - before).flights, 1);
        }
        tables.age(&admin, "key", 120_000).await;
    }
    Ok(())
}

/// A contended acquire writes nothing: no version of a row, and no lock on one.
#[tokio::test]
async fn a_contended_acquire_writes_nothing() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let admin = crate::postgres::support::connect(&shared().url()).await;
    let _ = take(&backend, "key").await;
    let state = async || -> Result<String> {
        let sql = format!(
            "SELECT (SELECT string_agg(ctid::text || xmin::text || xmax::text, ' ') FROM {})
             || (SELECT string_agg(ctid::text || xmin::text || xmax::text, ' ') FROM {})",
            tables.locks, tables.fences
        );
        Ok(admin.query_one(&sql, &[]).await?.get(0))
    };
    let before = state().await?;
    for _ in 0..20 {
        assert!(backend.acquire(request("key", MINUTE)).await?.is_locked());
    }
    assert_eq!(state().await?, before);
    Ok(())
}
