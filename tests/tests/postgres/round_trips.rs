//! The messages on the wire.

use std::pin::Pin;

use anyhow::{Result, bail, ensure};
use syncguard_postgres::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_postgres::{ExtendResult, LockBackend as _, LockError, LockId, PostgresBackend};
use syncguard_test_services::proxy::FaultProxy;

use crate::postgres::support::{
    MINUTE, Tables, connect, is_refused, over, request, shared, shared_pooler, stage, take, until,
    url_of,
};

/// A second one decides what is unusual: a takeover of an expired row, too.
#[tokio::test]
async fn every_usual_operation_is_one_round_trip() -> Result<()> {
    let (tables, admin) = (Tables::made().await, connect(&shared().url()).await);
    let unprepared = || tables.options().with_unprepared_statements(true);
    for (port, options) in [
        (shared().port(), tables.options()),
        (shared().port(), unprepared()),
        (shared_pooler().port(), unprepared()),
    ] {
        let proxy = FaultProxy::start(port)?;
        let backend = over(&url_of(proxy.port()), 1, options);
        // The first time, a connection is opened and statements are prepared.
        for is_warm in [false, true] {
            let id = LockId::generate()?;
            for (name, expected, flights, operation) in operations(&backend, id)? {
                let before = proxy.counters();
                ensure!(operation.await? == expected, "{name}");
                let seen = proxy.counters() - before;
                ensure!(
                    !is_warm || (seen.flights, seen.connections) == (flights, 0),
                    "{name}: {seen:?}"
                );
            }
            let _ = take(&backend, "expired").await;
            tables.age(&admin, "expired", 120_000).await;
            let before = proxy.counters().flights;
            let _ = take(&backend, "expired").await;
            ensure!(proxy.counters().flights - before == 2);
            tables.age(&admin, "expired", 120_000).await;
        }
    }
    Ok(())
}

type Operation<'a> = Pin<Box<dyn Future<Output = Result<bool, LockError>> + 'a>>;

/// Every operation with each of its results, true for a lock that is acquired, extended, released or found, and with its
/// round trips.
fn operations(
    backend: &PostgresBackend,
    id: LockId,
) -> Result<Vec<(&'static str, bool, u64, Operation<'_>)>> {
    const KEY: &str = "key";
    let acquire = |request| -> Operation<'_> {
        Box::pin(async move { Ok(backend.acquire(request).await?.is_acquired()) })
    };
    let lookup = |request| -> Operation<'_> {
        Box::pin(async move { Ok(backend.lookup(request).await?.is_some()) })
    };
    let extend = |request| -> Operation<'_> {
        Box::pin(async move { Ok(backend.extend(request).await?.is_extended()) })
    };
    let release = || -> Operation<'_> {
        let release = ReleaseRequest::new(id);
        Box::pin(async move { Ok(backend.release(release).await?.is_released()) })
    };
    let is_locked: Operation<'_> = Box::pin(backend.is_locked(IsLockedRequest::new(KEY)?));
    let poll = request(KEY, MINUTE).with_was_busy(true);
    let same = || request(KEY, MINUTE).with_lock_id(id);
    Ok(vec![
        ("acquire", true, 1, acquire(same())),
        ("contended acquire", false, 2, acquire(request(KEY, MINUTE))),
        ("poll", false, 1, acquire(poll)),
        ("repeated acquire", true, 2, acquire(same())),
        ("extend", true, 1, extend(ExtendRequest::new(id, MINUTE)?)),
        ("is_locked", true, 1, is_locked),
        ("lookup by key", true, 1, lookup(LookupRequest::by_key(KEY)?)),
        ("lookup by id", true, 1, lookup(LookupRequest::by_lock_id(id))),
        ("release", true, 1, release()),
        ("late release", false, 2, release()),
        ("late extend", false, 1, extend(ExtendRequest::new(id, MINUTE)?)),
        ("empty lookup by key", false, 1, lookup(LookupRequest::by_key(KEY)?)),
        ("empty lookup by id", false, 1, lookup(LookupRequest::by_lock_id(id))),
    ])
}

/// Extends of one moment are one statement for each hundred, and rewrite no index. With an index on the expiry, each goes
/// alone.
#[tokio::test]
async fn extends_of_one_moment_go_together_unless_an_index_makes_that_slow() -> Result<()> {
    const LOCKS: usize = 120;
    for is_indexed in [false, true] {
        let (tables, admin) = (Tables::made().await, connect(&shared().url()).await);
        if is_indexed {
            let locks = &tables.locks;
            let index = format!("CREATE INDEX idx_{locks}_expires ON {locks} (expires_at_ms)");
            admin.batch_execute(&index).await?;
        }
        let proxy = FaultProxy::start(shared().port())?;
        let backend = over(&url_of(proxy.port()), 2, tables.options());
        let mut locks = Vec::new();
        for number in 0..LOCKS {
            locks.push(take(&backend, &format!("key {number}")).await);
        }
        // The first time, the statement is prepared.
        for is_warm in [false, true] {
            let before = proxy.counters();
            let extends = locks.iter().map(|lock| {
                let request = ExtendRequest::new(lock.lock_id, MINUTE).expect("a request");
                let request = request.with_expected_expiry(lock.expires_at).with_others(true);
                let backend = backend.clone();
                tokio::spawn(async move { backend.extend(request).await })
            });
            let extends: Vec<_> = extends.collect();
            for (lock, extend) in locks.iter_mut().zip(extends) {
                let ExtendResult::Extended { expires_at } = extend.await?? else {
                    bail!("a live lock")
                };
                lock.expires_at = expires_at;
            }
            let flights = (proxy.counters() - before).flights;
            let usual = if is_indexed { LOCKS as u64 } else { 2 };
            ensure!(!is_warm || flights == usual, "{is_indexed}: {flights}");
        }
        let sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1";
        until("the server's statistics", async || {
            // Before PostgreSQL 15, a session can keep its counts until its next statement.
            let asked = [IsLockedRequest::new("key")?, IsLockedRequest::new("key")?];
            let asked = asked.map(|request| backend.is_locked(request));
            futures_util::future::try_join_all(asked).await?;
            let row = admin.query_one(sql, &[&tables.locks]).await?;
            let [updates, hot] = [0, 1].map(|column| row.get::<_, i64>(column));
            // The second time there may be no room, while a transaction of another test keeps the old versions.
            let locks = i64::try_from(LOCKS)?;
            let are_cheap = 100 * hot >= 95 * locks;
            Ok(updates >= 2 * locks && are_cheap != is_indexed)
        })
        .await?;
    }
    Ok(())
}

/// A contended acquire writes nothing: no version of a row, and no lock on one.
#[tokio::test]
async fn a_contended_acquire_writes_nothing() -> Result<()> {
    let (tables, backend, admin) = stage(1).await;
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
        ensure!(is_refused(&backend, "key").await);
    }
    assert_eq!(state().await?, before);
    Ok(())
}
