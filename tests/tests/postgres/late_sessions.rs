//! Statements that are given up, and their sessions.

mod cancelled;
mod crowd;
mod passed;
mod stage;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{IsLockedRequest, LookupRequest};
use syncguard_postgres::{ErrorCode, LockBackend as _, PostgresBackend};
use syncguard_test_services::postgres::{PgBouncer, PoolMode};

use self::crowd::Crowd;
use self::stage::{Fault, POOL, STATEMENT, Stage};
use crate::postgres::support::{pool, request};

/// Nearly as many statement timeouts as a minute has by default.
const FAULT: Duration = Duration::from_secs(8);

/// How soon all callers are served again on an idle machine.
const SOON: Duration = Duration::from_secs(2);

/// Checks that there are few sessions all the time, room for other clients, and service soon after the fault. Returns
/// the observations.
async fn pile_up(stage: &Stage, backend: &PostgresBackend, fault: Fault) -> Result<String> {
    let crowd = Crowd::gather(backend).await?;
    let usual = crowd.all_are_served().await?;
    stage.strike(fault).await?;
    let most = stage.watch(FAULT).await?;
    let (errors, unknown) = crowd.errors();
    stage.heal(fault).await?;
    let served = crowd.all_are_served().await?;
    let after = stage.watch(STATEMENT).await?;
    ensure!(most.max(after) <= POOL + 2, "{most} sessions, {after} afterwards");
    ensure!(errors > 10, "{errors} errors: was there a fault?");
    ensure!(served < SOON + 5 * usual, "all served after {served:?}, else after {usual:?}");
    crowd.leave().await?;
    Ok(format!(
        "{fault:?}: {most} sessions at most, {after} afterwards, all served after {served:?}, \
         {errors} errors, {unknown} of unknown outcome"
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_commits_pile_up_no_sessions_of_our_pool() -> Result<()> {
    let stage = Stage::set().await?;
    println!("{}", pile_up(&stage, &stage.ours().await?, Fault::StandbyAway).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_table_piles_up_no_sessions_of_our_pool() -> Result<()> {
    let stage = Stage::set().await?;
    println!("{}", pile_up(&stage, &stage.ours().await?, Fault::TableLocked).await?);
    Ok(())
}

/// Behind a transaction pooler, through which nothing is cancelled.
async fn behind_pgbouncer(fault: Fault) -> Result<String> {
    let stage = Stage::set().await?;
    let pooler = PgBouncer::start(&stage.server, PoolMode::Transaction)?;
    let options = stage.options().with_unprepared_statements(true);
    let backend =
        PostgresBackend::connect_with(&pooler.url(), options.with_pool_size(POOL)).await?;
    pile_up(&stage, &backend, fault).await
}

/// A read and a write wait for a table as long as they wait for a row.
#[tokio::test]
async fn a_late_table_is_waited_for_by_reads_as_by_writes() -> Result<()> {
    let stage = Stage::set().await?;
    let backend = stage.ours().await?;
    stage.strike(Fault::TableLocked).await?;
    for operation in ["is_locked", "lookup", "acquire"] {
        let started = Instant::now();
        let error = match operation {
            "is_locked" => backend.is_locked(IsLockedRequest::new("key")?).await.err(),
            "lookup" => backend.lookup(LookupRequest::by_key("key")?).await.err(),
            _ => backend.acquire(request("key", STATEMENT)).await.err(),
        };
        let took = started.elapsed();
        let error = error.with_context(|| format!("{operation}: an answer"))?;
        ensure!(error.code() == ErrorCode::ServiceUnavailable, "{operation}: {error:?}");
        ensure!(!error.is_outcome_unknown(), "{operation}");
        ensure!(took >= STATEMENT / 2 && took < STATEMENT, "{operation} took {took:?}");
    }
    Ok(())
}

/// While all connections wait for the server, the errors say so, and not that other callers use them.
#[tokio::test]
async fn a_late_server_is_named_when_the_pool_has_no_connection() -> Result<()> {
    let stage = Stage::set().await?;
    // The options say that there is a pooler, so nothing is cancelled.
    let options = stage.options().with_unprepared_statements(true);
    let options = options.with_pool_wait_timeout(STATEMENT / 4);
    let backend =
        PostgresBackend::from_pool(pool(&stage.url(), 1), options).expect("options in range");
    drop(backend.pool().get().await?);
    stage.strike(Fault::TableLocked).await?;
    for expected in [ErrorCode::NetworkTimeout, ErrorCode::ServiceUnavailable] {
        let error = backend.is_locked(IsLockedRequest::new("key")?).await.expect_err("an error");
        ensure!(error.code() == expected, "{error:?}");
    }
    Ok(())
}

/// The server is stopped: it accepts connections and requests, and answers nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_server_is_left_with_few_sessions() -> Result<()> {
    for ours in [true, false] {
        let mut stage = Stage::set().await?;
        let backend = if ours { stage.ours().await? } else { stage.theirs() };
        let crowd = Crowd::gather(&backend).await?;
        let usual = crowd.all_are_served().await?;
        stage.server.pause()?;
        tokio::time::sleep(FAULT * 3 / 4).await;
        stage.server.resume()?;
        let served = crowd.all_are_served().await?;
        let most = stage.watch(STATEMENT).await?;
        println!("{most} sessions, all served after {served:?}");
        ensure!(most <= POOL + 2, "{most} sessions");
        ensure!(served < SOON + 5 * usual, "all served after {served:?}, else after {usual:?}");
        crowd.leave().await?;
    }
    Ok(())
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_late_table_piles_up_no_sessions_behind_pgbouncer() -> Result<()> {
        println!("{}", behind_pgbouncer(Fault::TableLocked).await?);
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_late_table_piles_up_no_sessions_of_a_users_pool() -> Result<()> {
        let stage = Stage::set().await?;
        println!("{}", pile_up(&stage, &stage.theirs(), Fault::TableLocked).await?);
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn late_commits_pile_up_no_sessions_behind_pgbouncer() -> Result<()> {
        println!("{}", behind_pgbouncer(Fault::StandbyAway).await?);
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn late_commits_pile_up_no_sessions_of_a_users_pool() -> Result<()> {
        let stage = Stage::set().await?;
        println!("{}", pile_up(&stage, &stage.theirs(), Fault::StandbyAway).await?);
        Ok(())
    }

    /// Nothing can be cancelled because the pool's sessions are encrypted, or claim to be: sessions without an answer are
    /// few all the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn late_commits_that_nobody_can_cancel_pile_up_no_sessions() -> Result<()> {
        let stage = Stage::set().await?;
        let pool = passed::pool(&stage.url(), POOL)?;
        println!(
            "{}",
            pile_up(
                &stage,
                &PostgresBackend::from_pool(pool, stage.options()).expect("options in range"),
                Fault::StandbyAway
            )
            .await?
        );
        Ok(())
    }
}
