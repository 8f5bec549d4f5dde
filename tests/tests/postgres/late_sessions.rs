//! Statements that are given up, and their sessions.

mod cancelled;
mod crowd;
mod stage;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{IsLockedRequest, LookupRequest};
use syncguard_postgres::{ErrorCode, LockBackend as _, LockError};
use tokio::time::sleep;

use self::crowd::Crowd;
use self::stage::{Fault, Means, POOL, SESSIONS, STATEMENT, Stage};
use crate::postgres::support::{over, request};

/// Nearly as many statement timeouts as a minute has by default.
const FAULT: Duration = Duration::from_secs(8);

/// There are few sessions all the time, other clients have room, and all callers are served again after the fault.
async fn pile_up(means: Means, fault: Fault) -> Result<()> {
    let stage = Stage::set().await?;
    let (backend, _pooler) = stage.backend(means).await?;
    let crowd = Crowd::gather(&backend).await?;
    stage.strike(fault).await?;
    let most = stage.watch(FAULT).await?;
    let errors = crowd.errors();
    stage.heal(fault).await?;
    crowd.all_are_served().await?;
    let after = stage.watch(STATEMENT).await?;
    ensure!(most.max(after) <= SESSIONS, "{means:?}, {fault:?}: {most} sessions, then {after}");
    ensure!(errors > 10, "{means:?}, {fault:?}: {errors} errors: was there a fault?");
    crowd.leave().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_commits_pile_up_no_sessions() -> Result<()> {
    pile_up(Means::Ours, Fault::StandbyAway).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_table_piles_up_no_sessions() -> Result<()> {
    pile_up(Means::Ours, Fault::TableLocked).await
}

mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_piles_up_in_other_pools() -> Result<()> {
        for means in [Means::Theirs, Means::BehindPgBouncer, Means::WithoutCancelRequests] {
            for fault in [Fault::StandbyAway, Fault::TableLocked] {
                pile_up(means, fault).await?;
            }
        }
        Ok(())
    }
}

/// The server is stopped: it accepts connections and requests, and answers nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_server_is_left_with_few_sessions() -> Result<()> {
    for means in [Means::Ours, Means::Theirs] {
        let mut stage = Stage::set().await?;
        let (backend, _) = stage.backend(means).await?;
        let crowd = Crowd::gather(&backend).await?;
        stage.server.pause()?;
        sleep(FAULT * 3 / 4).await;
        stage.server.resume()?;
        crowd.all_are_served().await?;
        let most = stage.watch(STATEMENT).await?;
        ensure!(most <= SESSIONS, "{means:?}: {most} sessions");
        crowd.leave().await?;
    }
    Ok(())
}

/// A read and a write wait for a table as long as they wait for a row. The server itself ends the wait, and so the
/// answer says that.
#[tokio::test]
async fn a_late_table_is_waited_for_by_reads_as_by_writes() -> Result<()> {
    // Half of it is the time for the server's answer.
    const PATIENCE: Duration = Duration::from_secs(10);
    let stage = Stage::set().await?;
    let backend = stage.ours(&stage.url(), POOL, PATIENCE).await?;
    stage.strike(Fault::TableLocked).await?;
    let started = Instant::now();
    let (is_locked, lookup, acquire) = tokio::join!(
        backend.is_locked(IsLockedRequest::new("key")?),
        backend.lookup(LookupRequest::by_key("key")?),
        backend.acquire(request("key", PATIENCE)),
    );
    ensure!(started.elapsed() >= PATIENCE / 2, "{:?}", started.elapsed());
    let errors: [Option<LockError>; 3] = [is_locked.err(), lookup.err(), acquire.err()];
    for error in errors {
        let error = error.context("an answer")?;
        ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error:?}");
        ensure!(!error.is_outcome_unknown(), "{error:?}");
    }
    Ok(())
}

/// While all connections wait for the server, the errors say so, and not that other callers use them.
#[tokio::test]
async fn a_late_server_is_named_when_the_pool_has_no_connection() -> Result<()> {
    let stage = Stage::set().await?;
    // Nothing is cancelled without prepared statements.
    let options = stage.options().with_unprepared_statements(true);
    let backend = over(&stage.url(), 1, options.with_pool_wait_timeout(STATEMENT / 4));
    drop(backend.pool().get().await?);
    stage.strike(Fault::TableLocked).await?;
    for expected in [ErrorCode::NetworkTimeout, ErrorCode::ServiceUnavailable] {
        let error = backend.is_locked(IsLockedRequest::new("key")?).await.expect_err("an error");
        ensure!(error.code() == expected, "{error:?}");
    }
    Ok(())
}
