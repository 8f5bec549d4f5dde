//! Detects a pooler that sends the statements of one session to different servers.

use std::time::Duration;

use syncguard::postgres::PostgresBackend;
use tokio::time::sleep;

use crate::commands::doctor::finding::Finding;

/// The most sessions that take a server.
const SESSIONS: usize = 6;

/// How long a session keeps a server that a pooler takes away after each statement.
const BUSY: Duration = Duration::from_millis(200);

/// Prepares a statement in one session, lets other sessions take the idle servers, one of which has it, and runs it in the
/// first: behind a pooler in transaction mode another server answers, or the statement is missing there.
///
/// `is_unprepared`: the URL has the parameter that a pooler needs which does not keep prepared statements.
pub(super) async fn examine(backend: &PostgresBackend, is_unprepared: bool) -> Option<Finding> {
    let says = match (keeps_prepared(backend).await?, is_unprepared) {
        (false, false) => return Some(Finding::pooler(MESSAGE)),
        (false, true) => {
            "and loses prepared ones: it needs unprepared_statements=true, as the URL has it"
        }
        (true, false) => "and keeps prepared ones: it needs no unprepared_statements",
        (true, true) => {
            "and keeps prepared ones: without unprepared_statements=true in the URL, PostgreSQL plans each of them once"
        }
    };
    let says = format!("a pooler sends the statements of a session to different servers, {says}");
    Some(Finding::green("pooler", says))
}

/// Whether a pooler that gives the statements of a session to different servers keeps prepared ones; `None` if there is none, or
/// if that cannot be found out: the permissions are tried next.
async fn keeps_prepared(backend: &PostgresBackend) -> Option<bool> {
    let pool = backend.pool();
    let first = pool.get().await.ok()?;
    let statement = match first.prepare("SELECT pg_backend_pid()").await {
        Ok(statement) => statement,
        // Another client's statement of this name is on the server.
        Err(error) if error.code().is_some_and(|code| code.code() == "42P05") => {
            return Some(false);
        }
        Err(_) => return None,
    };
    let server =
        async || -> Option<i32> { first.query_one(&statement, &[]).await.ok()?.try_get(0).ok() };
    let Some(before) = server().await else { return Some(false) };
    let sleeping = format!("SELECT pg_sleep({})", BUSY.as_secs_f64());
    let (mut others, mut found) = (Vec::new(), None);
    while found.is_none() && others.len() + 1 < pool.status().max_size.min(SESSIONS) {
        let Ok(other) = pool.get().await else { break };
        // A statement makes the pooler assign a server.
        let is_kept = other.batch_execute("BEGIN; SELECT 1").await.is_ok();
        let now = if is_kept {
            others.push(other);
            server().await
        } else {
            // A pooler in statement mode refuses transactions, and closes the connection.
            let busy = pool.get().await.ok()?;
            let later = async {
                sleep(BUSY / 2).await;
                server().await
            };
            tokio::join!(busy.batch_execute(&sleeping), later).1
        };
        found = match now {
            Some(now) if now == before && is_kept => None,
            Some(now) if now == before => break,
            other => Some(other.is_some()),
        };
    }
    for other in others {
        other.batch_execute("ROLLBACK").await.ok()?;
    }
    found
}

const MESSAGE: &str = "a pooler sends the statements of a session to different servers, where prepared ones are missing";
