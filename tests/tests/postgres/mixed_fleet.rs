//! Both libraries, for Rust and for TypeScript, want the same key: each order of their statements that could go wrong.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::tokio_postgres::Transaction;
use syncguard_postgres::{ErrorCode, ExtendResult, NotHeld, PostgresBackend};

use crate::postgres::support::{
    MINUTE, Tables, acquiring, connect, extend, extending, over_pool, pin, release, session,
    shared, stage, take, turn, waiters, waits,
};
use crate::postgres::typescript;

const KEY: &str = "key";

/// Our statement's snapshot is older than their commit, because the statement waited for their advisory lock: it sees
/// what they wrote all the same, and takes what they have released again.
#[tokio::test]
async fn an_acquire_that_waited_for_theirs_sees_what_they_wrote() -> Result<()> {
    for (expired, released) in [(false, false), (true, false), (false, true)] {
        let (tables, backend, admin) = stage(2).await;
        if expired {
            let _ = take(&backend, KEY).await;
            tables.age(&admin, KEY, 120_000).await;
        }
        let before = tables.counter(&admin, KEY).await;

        let mut client = connect(&shared().url()).await;
        let transaction = client.transaction().await?;
        let now = typescript::read(&transaction, &tables, KEY).await?.context("a free key")?;
        let acquire = acquiring(&backend, KEY);
        waiters(&admin, &tables.locks, 1).await;
        let (_, fence) = typescript::write(&transaction, &tables, KEY, now, 60_000).await?;
        if released {
            transaction.execute(&format!("DELETE FROM {}", tables.locks), &[]).await?;
        }
        transaction.commit().await?;

        ensure!(acquire.await??.is_acquired() == released, "two holders");
        let counter = tables.counter(&admin, KEY).await;
        ensure!(counter == before + 1 + i64::from(released), "a fence was used up");
        ensure!(fence.parse::<i64>()? == before + 1, "their fence");
    }
    Ok(())
}

/// The time counts from the end of the wait: a lock that had to wait has its whole TTL.
#[tokio::test]
async fn a_lock_that_waited_is_born_whole() -> Result<()> {
    let (tables, backend, admin) = stage(2).await;
    let mut client = connect(&shared().url()).await;
    // Ends the turn after a while, and returns the expiry of a lock of a minute that is granted from then on.
    let expiry_after = async |turn: Transaction<'_>| -> Result<i64> {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let sql = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let now: i64 = admin.query_one(sql, &[]).await?.get(0);
        turn.commit().await?;
        Ok(now + 60_000)
    };
    let waited_for = turn(&mut client, KEY).await?;
    let acquire = acquiring(&backend, KEY);
    let whole = expiry_after(waited_for).await?;
    let lock = acquire.await??.acquired().context("a free key")?;
    ensure!(i64::try_from(lock.expires_at.as_millis())? >= whole, "born short: {lock:?}");

    // An extend waits only if the lock ends before its deadline.
    tables.age(&admin, KEY, 56_000).await;
    let waited_for = turn(&mut client, KEY).await?;
    let extend = extending(&backend, lock.lock_id);
    let whole = expiry_after(waited_for).await?;
    let ExtendResult::Extended { expires_at } = extend.await?? else { bail!("held") };
    ensure!(i64::try_from(expires_at.as_millis())? >= whole, "extended to {expires_at:?}");
    Ok(())
}

/// An extend that waits while its lock expires revives nothing: for the key's advisory lock, or for the row, which an
/// idle transaction of the TypeScript client holds.
#[tokio::test]
async fn an_extend_that_waited_too_long_revives_nothing() -> Result<()> {
    for by_row in [false, true] {
        let (tables, backend, admin) = stage(2).await;
        let backend =
            over_pool(backend.pool().clone(), tables.options().with_statement_timeout(MINUTE / 2));
        let lock = take(&backend, KEY).await;
        let mut client = connect(&shared().url()).await;
        // A tenth of a second before the end of the tolerance.
        tables.age(&admin, KEY, 60_900).await;
        let held_up =
            if by_row { pin(&mut client, &tables).await? } else { turn(&mut client, KEY).await? };
        let extend = extending(&backend, lock.lock_id);
        tokio::time::sleep(Duration::from_millis(300)).await;
        held_up.commit().await?;
        ensure!(extend.await?? == ExtendResult::NotHeld(NotHeld::Expired), "by row: {by_row}");
        ensure!(take(&backend, KEY).await.fence.get() == 2);
    }
    Ok(())
}

/// A backend whose statements have more time than its locks: its extends take the advisory lock.
fn late_extends(backend: &PostgresBackend, tables: &Tables) -> PostgresBackend {
    let options = tables.options().with_statement_timeout(2 * MINUTE);
    over_pool(backend.pool().clone(), options)
}

/// A role with no right but to connect may take the advisory lock of any key. That keeps nobody from extending.
#[tokio::test]
async fn an_extend_in_time_does_not_wait_for_the_advisory_lock() -> Result<()> {
    let (tables, backend, _admin) = stage(3).await;
    // Tests share the advisory locks of a database.
    let lock = take(&backend, "in time").await;
    let mut client = connect(&shared().url()).await;
    let turn = turn(&mut client, "in time").await?;
    extend(&backend, lock.lock_id).await?;
    // Too late to do without: a TypeScript client could overwrite the lock.
    let patient = late_extends(&backend, &tables);
    let waits = extend(&patient, lock.lock_id);
    let waits = tokio::time::timeout(Duration::from_millis(300), waits).await;
    ensure!(waits.is_err(), "it did not wait");
    turn.rollback().await?;
    extend(&backend, lock.lock_id).await
}

/// The case that breaks without the advisory lock in our extend: the TypeScript client has read the expired row, we
/// extend it, and it overwrites the row. The old expiry passes between our decision and our commit.
#[tokio::test]
async fn an_extend_never_slips_between_their_read_and_their_write() -> Result<()> {
    let (tables, backend, admin) = stage(2).await;
    let backend = late_extends(&backend, &tables);
    let lock = take(&backend, KEY).await;

    let mut client = connect(&shared().url()).await;
    let transaction = client.transaction().await?;
    // The TypeScript client holds the advisory lock, and will decide by the row that it reads now.
    ensure!(typescript::read(&transaction, &tables, KEY).await?.is_none(), "it is live");
    let extend = extending(&backend, lock.lock_id);
    waiters(&admin, &tables.locks, 1).await;
    // As if the row had been expired when it was read.
    let now: i64 = transaction.query_one(typescript::NOW, &[]).await?.get(0);
    let (theirs, _) = typescript::write(&transaction, &tables, KEY, now, 60_000).await?;
    transaction.commit().await?;

    ensure!(!extend.await??.is_extended(), "two holders");
    ensure!(typescript::release(&mut client, &tables, theirs).await?, "their lock is theirs");
    Ok(())
}

/// An extend that is early enough to do without the advisory lock is not, once another extend has shortened the lock.
#[tokio::test]
async fn an_extend_of_a_lock_that_was_shortened_changes_nothing_without_the_advisory_lock()
-> Result<()> {
    const KEY: &str = "shortened";
    let (tables, backend, admin) = stage(1).await;
    let options = tables.options().with_statement_timeout(MINUTE / 2);
    let backend = over_pool(backend.pool().clone(), options);
    let lock = take(&backend, KEY).await;
    let mut theirs = connect(&shared().url()).await;
    let theirs = turn(&mut theirs, KEY).await?;
    let mut other = connect(&shared().url()).await;
    let other = pin(&mut other, &tables).await?;
    let extend = extending(&backend, lock.lock_id);
    waiters(&admin, &tables.locks, 1).await;
    let shorten = format!("UPDATE {} SET expires_at_ms = expires_at_ms - 40000", tables.locks);
    other.batch_execute(&shorten).await?;
    other.commit().await?;
    let error = extend.await?.unwrap_err();
    ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error:?}");
    Ok(theirs.rollback().await?)
}

/// Our extend is being committed when the TypeScript client's acquire arrives: the acquire has to wait for us.
#[tokio::test]
async fn their_acquire_waits_for_an_extend_under_way() -> Result<()> {
    let (tables, backend, admin) = stage(2).await;
    let backend = late_extends(&backend, &tables);
    let lock = take(&backend, KEY).await;
    // Another transaction blocks the row, so our extend has the key's advisory lock and cannot finish.
    let mut holding = connect(&shared().url()).await;
    let pin = holding.transaction().await?;
    pin.execute(&format!("SELECT FROM {} FOR NO KEY UPDATE", tables.locks), &[]).await?;
    let extend = extending(&backend, lock.lock_id);
    waiters(&admin, &tables.locks, 1).await;
    let mut client = connect(&shared().url()).await;
    let theirs = session(&client).await;
    let acquire = typescript::acquire(&mut client, &tables, KEY, 60_000);
    let (acquired, unpinned) = tokio::join!(acquire, async {
        waits(&admin, theirs).await;
        pin.rollback().await
    });
    unpinned?;
    ensure!(extend.await??.is_extended(), "it was ours");
    ensure!(acquired?.is_none(), "two holders");
    Ok(())
}

/// The TypeScript client's extend may be in progress on a row that looks expired to our snapshot.
#[tokio::test]
async fn an_acquire_waits_for_their_extend_of_an_expired_row() -> Result<()> {
    let (tables, backend, admin) = stage(2).await;
    let lock = take(&backend, KEY).await;
    tables.age(&admin, KEY, 120_000).await;
    let mut client = connect(&shared().url()).await;
    let transaction = client.transaction().await?;
    let sql = format!(
        "UPDATE {} SET expires_at_ms = (extract(epoch FROM now()) * 1000)::bigint + 60000",
        tables.locks
    );
    transaction.execute(&sql, &[]).await?;
    let acquire = acquiring(&backend, KEY);
    waiters(&admin, &tables.locks, 1).await;
    transaction.commit().await?;
    ensure!(acquire.await??.is_busy(), "two holders");
    ensure!(tables.counter(&admin, KEY).await == 1, "a fence was used up");
    release(&backend, lock.lock_id).await
}
