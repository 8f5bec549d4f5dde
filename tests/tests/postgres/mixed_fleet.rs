//! A fleet of both libraries, for Rust and for TypeScript, on the same keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{AcquireResult, ExtendRequest, ReleaseRequest};
use syncguard_postgres::{ExtendResult, LockBackend as _, LockId, NotHeld, PostgresBackend};
use syncguard_test_effort::either;
use tokio::task::JoinSet;

use crate::postgres::support::{
    MINUTE, Tables, connect, pool, request, session, shared, take, waiters, waits,
};
use crate::postgres::typescript;

/// A key and the facts about its holders.
#[derive(Default)]
struct Watched {
    holders: AtomicUsize,
    /// The highest fence so far: holders come one after the other, so it must grow.
    highest: AtomicU64,
    entries: AtomicUsize,
}

impl Watched {
    fn enter(&self, fence: u64) -> Result<()> {
        ensure!(self.holders.fetch_add(1, Ordering::SeqCst) == 0, "two holders");
        let before = self.highest.swap(fence, Ordering::SeqCst);
        ensure!(before < fence, "fence {fence} after {before}");
        self.entries.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn leave(&self) {
        self.holders.fetch_sub(1, Ordering::SeqCst);
    }
}

const KEYS: usize = 2;
const TASKS: usize = 4;

/// Thousands of acquisitions by both libraries, handed over by release and by expiry (a crashed holder's lock is made
/// older), with extends in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_fleet_never_has_two_holders_nor_a_fence_twice() -> Result<()> {
    let rounds: usize = either(60, 300);
    let tables = Tables::fresh();
    let backend = tables.backend(TASKS).await;
    let keys: Arc<Vec<Watched>> = Arc::new((0..KEYS).map(|_| Watched::default()).collect());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (rust, names, watched) = (backend.clone(), tables.clone(), Arc::clone(&keys));
        tasks.spawn(async move { ours(&rust, &names, &watched, task, rounds).await });
        let (names, watched) = (tables.clone(), Arc::clone(&keys));
        tasks.spawn(async move { theirs(&names, &watched, task, rounds).await });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let client = connect(&shared().url()).await;
    for (number, key) in keys.iter().enumerate() {
        let entries = key.entries.load(Ordering::SeqCst);
        ensure!(entries == 2 * TASKS * rounds / KEYS, "{entries} entries");
        let counter = tables.counter(&client, &format!("key {number}")).await;
        let highest = key.highest.load(Ordering::SeqCst);
        // All counted fences were granted.
        ensure!(u64::try_from(counter)? == highest, "counter {counter}, highest fence {highest}");
        ensure!(highest == entries as u64, "{highest} fences for {entries} entries");
    }
    Ok(())
}

async fn ours(
    backend: &PostgresBackend,
    tables: &Tables,
    keys: &[Watched],
    task: usize,
    rounds: usize,
) -> Result<()> {
    let admin = connect(&shared().url()).await;
    for round in 0..rounds {
        let number = (task + round) % KEYS;
        let key = format!("key {number}");
        let lock = loop {
            match backend.acquire(request(&key, MINUTE)).await? {
                AcquireResult::Acquired(lock) => break lock,
                AcquireResult::Locked(_) | AcquireResult::Refused(_) => pause(task + round).await,
            }
        };
        keys[number].enter(lock.fence.get())?;
        if round % 3 == 0 {
            let extend = backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?;
            ensure!(extend.is_extended(), "a held lock was not extended");
        }
        keys[number].leave();
        if round % 4 == 0 {
            // A crash: the lock expires. It must not be extended after that.
            tables.age(&admin, &key, 120_000).await;
            let extend = backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?;
            ensure!(!extend.is_extended(), "an expired lock was extended");
        } else {
            let release = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
            ensure!(release.is_released(), "a held lock was not released");
        }
    }
    Ok(())
}

async fn theirs(tables: &Tables, keys: &[Watched], task: usize, rounds: usize) -> Result<()> {
    let mut client = connect(&shared().url()).await;
    for round in 0..rounds {
        let number = (task + round) % KEYS;
        let key = format!("key {number}");
        let (lock_id, fence) = loop {
            match typescript::acquire(&mut client, tables, &key, 60_000).await? {
                Some(lock) => break lock,
                None => pause(task + round).await,
            }
        };
        keys[number].enter(fence.parse()?)?;
        if round % 3 == 0 {
            ensure!(typescript::extend(&mut client, tables, lock_id, 60_000).await?, "extend");
        }
        keys[number].leave();
        if round % 4 == 0 {
            tables.age(&client, &key, 120_000).await;
        } else {
            ensure!(typescript::release(&mut client, tables, lock_id).await?, "release");
        }
    }
    Ok(())
}

async fn pause(seed: usize) {
    tokio::time::sleep(Duration::from_micros(200 * (seed as u64 % 5 + 1))).await;
}

/// Our statement's snapshot is older than their commit: it waited for their advisory lock.
#[tokio::test]
async fn an_acquire_that_waited_for_theirs_sees_what_they_wrote() -> Result<()> {
    for expired in [false, true] {
        let (tables, key) = (Tables::fresh(), "key");
        let backend = tables.backend(2).await;
        let admin = connect(&shared().url()).await;
        if expired {
            let _ = take(&backend, key).await;
            tables.age(&admin, key, 120_000).await;
        }
        let before = tables.counter(&admin, key).await;

        let mut client = connect(&shared().url()).await;
        let transaction = client.transaction().await?;
        let now = typescript::read(&transaction, &tables, key).await?.context("a free key")?;
        let acquire = tokio::spawn({
            let backend = backend.clone();
            async move { backend.acquire(request(key, MINUTE)).await }
        });
        waiters(&admin, &tables.locks, 1).await;
        let (_, fence) = typescript::write(&transaction, &tables, key, now, 60_000).await?;
        transaction.commit().await?;

        ensure!(acquire.await??.is_locked(), "two holders");
        ensure!(tables.counter(&admin, key).await == before + 1, "a fence was used up");
        ensure!(fence.parse::<i64>()? == before + 1, "their fence");
    }
    Ok(())
}

/// The same, but the TypeScript client has released the key again by our turn.
#[tokio::test]
async fn an_acquire_that_waited_takes_what_is_free_again() -> Result<()> {
    let (tables, key) = (Tables::fresh(), "key");
    let backend = tables.backend(2).await;
    let admin = connect(&shared().url()).await;
    let mut client = connect(&shared().url()).await;
    let transaction = client.transaction().await?;
    let now = typescript::read(&transaction, &tables, key).await?.context("a free key")?;
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request(key, MINUTE)).await }
    });
    waiters(&admin, &tables.locks, 1).await;
    typescript::write(&transaction, &tables, key, now, 60_000).await?;
    transaction.execute(&format!("DELETE FROM {}", tables.locks), &[]).await?;
    transaction.commit().await?;
    let lock = acquire.await??.acquired().context("a free key")?;
    ensure!(lock.fence.get() == 2, "{:?}", lock.fence);
    Ok(())
}

/// The time counts from the end of the wait: a lock that had to wait has its whole TTL.
#[tokio::test]
async fn a_lock_that_waited_is_born_whole() -> Result<()> {
    const WAIT: Duration = Duration::from_millis(500);
    let (tables, key) = (Tables::fresh(), "key");
    let backend = tables.backend(2).await;
    let admin = connect(&shared().url()).await;
    let now = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let mut client = connect(&shared().url()).await;

    let turn = client.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&key]).await?;
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request(key, MINUTE)).await }
    });
    tokio::time::sleep(WAIT).await;
    let over: i64 = admin.query_one(now, &[]).await?.get(0);
    turn.commit().await?;
    let lock = acquire.await??.acquired().context("a free key")?;
    let whole = i64::try_from(lock.expires_at.as_millis())? - 60_000;
    ensure!(whole >= over, "born {} ms short", over - whole);

    // An extend waits only if the lock ends before its deadline.
    tables.age(&admin, key, 56_000).await;
    let turn = client.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&key]).await?;
    let extend = tokio::spawn({
        let backend = backend.clone();
        async move { backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await }
    });
    tokio::time::sleep(WAIT).await;
    let over: i64 = admin.query_one(now, &[]).await?.get(0);
    turn.commit().await?;
    let ExtendResult::Extended { expires_at } = extend.await?? else { panic!("held") };
    let whole = i64::try_from(expires_at.as_millis())? - 60_000;
    ensure!(whole >= over, "extended {} ms short", over - whole);
    Ok(())
}

/// An extend that waits while its lock expires revives nothing.
#[tokio::test]
async fn an_extend_that_waited_too_long_revives_nothing() -> Result<()> {
    let (tables, key) = (Tables::fresh(), "key");
    let backend = tables.backend(2).await;
    let admin = connect(&shared().url()).await;
    let lock = take(&backend, key).await;
    // A tenth of a second before the end of the tolerance.
    tables.age(&admin, key, 60_900).await;
    let mut client = connect(&shared().url()).await;
    let turn = client.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&key]).await?;
    let extend = tokio::spawn({
        let backend = backend.clone();
        async move { backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    turn.commit().await?;
    ensure!(extend.await?? == ExtendResult::NotHeld(NotHeld::Expired));
    Ok(())
}

/// The same if the row is blocked, and not the key: by an idle transaction of the TypeScript client.
#[tokio::test]
async fn an_extend_whose_row_was_held_up_for_too_long_revives_nothing() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let options = tables.options().with_statement_timeout(MINUTE);
    let backend =
        PostgresBackend::from_pool(pool(&shared().url(), 2), options).expect("options in range");
    let ttl = Duration::from_millis(300);
    let lock = backend.acquire(request("key", ttl)).await?.acquired().context("a free key")?;
    let mut client = connect(&shared().url()).await;
    let pin = client.transaction().await?;
    pin.execute(&format!("SELECT FROM {} FOR UPDATE", tables.locks), &[]).await?;
    let extend = tokio::spawn({
        let backend = backend.clone();
        async move { backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await }
    });
    tokio::time::sleep(ttl + Duration::from_millis(1100)).await;
    pin.rollback().await?;
    ensure!(extend.await?? == ExtendResult::NotHeld(NotHeld::Expired));
    ensure!(take(&backend, "key").await.fence.get() == 2);
    Ok(())
}

/// A backend whose statements have more time than its locks: its extends take the advisory lock.
async fn late_extends(tables: &Tables) -> PostgresBackend {
    drop(tables.backend(1).await);
    let options = tables.options().with_statement_timeout(2 * MINUTE);
    PostgresBackend::from_pool(pool(&shared().url(), 2), options).expect("options in range")
}

/// A role with no right but to connect may take the advisory lock of any key. That keeps nobody from extending.
#[tokio::test]
async fn an_extend_in_time_does_not_wait_for_the_advisory_lock() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(2).await;
    // Tests share the advisory locks of a database.
    let lock = take(&backend, "in time").await;
    let mut client = connect(&shared().url()).await;
    let turn = client.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext('in time'))", &[]).await?;
    let extend = || ExtendRequest::new(lock.lock_id, MINUTE);
    ensure!(backend.extend(extend()?).await?.is_extended());
    // Too late to do without: a TypeScript client could overwrite the lock.
    let patient = late_extends(&tables).await;
    let waits = tokio::time::timeout(Duration::from_millis(300), patient.extend(extend()?)).await;
    ensure!(waits.is_err(), "it did not wait");
    turn.rollback().await?;
    ensure!(backend.extend(extend()?).await?.is_extended());
    Ok(())
}

/// The case that breaks without the advisory lock in our extend: the TypeScript client has read the expired row, we
/// extend it, and it overwrites the row. The old expiry passes between our decision and our commit.
#[tokio::test]
async fn an_extend_never_slips_between_their_read_and_their_write() -> Result<()> {
    let (tables, key) = (Tables::fresh(), "key");
    let backend = late_extends(&tables).await;
    let admin = connect(&shared().url()).await;
    let lock = take(&backend, key).await;

    let mut client = connect(&shared().url()).await;
    let transaction = client.transaction().await?;
    // The TypeScript client holds the advisory lock, and will decide by the row that it reads now.
    ensure!(typescript::read(&transaction, &tables, key).await?.is_none(), "it is live");
    let extend = tokio::spawn({
        let (backend, lock_id) = (backend.clone(), lock.lock_id);
        async move { backend.extend(ExtendRequest::new(lock_id, MINUTE)?).await }
    });
    waiters(&admin, &tables.locks, 1).await;
    // As if the row had been expired when it was read.
    let now: i64 = transaction
        .query_one("SELECT floor(extract(epoch FROM now()) * 1000)::bigint", &[])
        .await?
        .get(0);
    let (theirs, _) = typescript::write(&transaction, &tables, key, now, 60_000).await?;
    transaction.commit().await?;

    ensure!(!extend.await??.is_extended(), "two holders");
    ensure!(typescript::release(&mut client, &tables, theirs).await?, "their lock is theirs");
    Ok(())
}

/// Our extend is being committed when the TypeScript client's acquire arrives: the acquire has to wait for us.
#[tokio::test]
async fn their_acquire_waits_for_an_extend_under_way() -> Result<()> {
    let (tables, key) = (Tables::fresh(), "key");
    let backend = late_extends(&tables).await;
    let admin = connect(&shared().url()).await;
    let lock = take(&backend, key).await;
    // Another transaction blocks the row, so our extend has the key's advisory lock and cannot finish.
    let mut holding = connect(&shared().url()).await;
    let pin = holding.transaction().await?;
    pin.execute(&format!("SELECT FROM {} FOR NO KEY UPDATE", tables.locks), &[]).await?;
    let extend = tokio::spawn({
        let (backend, lock_id) = (backend.clone(), lock.lock_id);
        async move { backend.extend(ExtendRequest::new(lock_id, MINUTE)?).await }
    });
    waiters(&admin, &tables.locks, 1).await;
    let mut client = connect(&shared().url()).await;
    let theirs = session(&client).await;
    let acquire = tokio::spawn({
        let tables = tables.clone();
        async move { typescript::acquire(&mut client, &tables, "key", 60_000).await }
    });
    waits(&admin, theirs).await;
    pin.rollback().await?;
    ensure!(extend.await??.is_extended(), "it was ours");
    ensure!(acquire.await??.is_none(), "two holders");
    Ok(())
}

/// The TypeScript client's extend may be in progress on a row that looks expired to our snapshot.
#[tokio::test]
async fn an_acquire_waits_for_their_extend_of_an_expired_row() -> Result<()> {
    let (tables, key) = (Tables::fresh(), "key");
    let backend = tables.backend(2).await;
    let admin = connect(&shared().url()).await;
    let lock = take(&backend, key).await;
    tables.age(&admin, key, 120_000).await;
    let mut client = connect(&shared().url()).await;
    let transaction = client.transaction().await?;
    let sql = format!(
        "UPDATE {} SET expires_at_ms = (extract(epoch FROM now()) * 1000)::bigint + 60000",
        tables.locks
    );
    transaction.execute(&sql, &[]).await?;
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request(key, MINUTE)).await }
    });
    waiters(&admin, &tables.locks, 1).await;
    transaction.commit().await?;
    ensure!(acquire.await??.is_locked(), "two holders");
    ensure!(tables.counter(&admin, key).await == 1, "a fence was used up");
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// A lock id of one library is unknown to the other.
#[tokio::test]
async fn ids_belong_to_their_locks() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let mut client = connect(&shared().url()).await;
    let (theirs, _) =
        typescript::acquire(&mut client, &tables, "theirs", 60_000).await?.context("free")?;
    let ours = take(&backend, "ours").await;
    ensure!(!typescript::release(&mut client, &tables, LockId::generate()?).await?);
    ensure!(typescript::extend(&mut client, &tables, ours.lock_id, 60_000).await?);
    ensure!(typescript::release(&mut client, &tables, ours.lock_id).await?);
    ensure!(backend.extend(ExtendRequest::new(theirs, MINUTE)?).await?.is_extended());
    ensure!(backend.release(ReleaseRequest::new(theirs)).await?.is_released());
    let gone = backend.release(ReleaseRequest::new(theirs)).await?;
    ensure!(gone == syncguard_postgres::ReleaseResult::NotHeld(NotHeld::NotFound));
    Ok(())
}
