//! Detects a pooler that sends the statements of one session to different servers.

use syncguard::postgres::PostgresBackend;

use crate::commands::doctor::finding::Finding;

/// Prepares a statement in one session, lets a second session take the server that has it, and runs
/// it in the first: behind a pooler in transaction mode the statement is missing.
pub(super) async fn examine(backend: &PostgresBackend) -> Option<Finding> {
    // A check that fails reports nothing: the permissions are tried next.
    let pool = backend.pool();
    if pool.status().max_size < 2 {
        return None;
    }
    let (first, second) = (pool.get().await.ok()?, pool.get().await.ok()?);
    let statement = match first.prepare("SELECT 1").await {
        Ok(statement) => statement,
        // Another client's statement of this name is on the server.
        Err(error) if error.code().is_some_and(|code| code.code() == "42P05") => {
            return Some(Finding::pooler(MESSAGE));
        }
        Err(_) => return None,
    };
    second.batch_execute("BEGIN").await.ok()?;
    // A statement makes the pooler assign a server.
    let kept = second.batch_execute("SELECT 1").await.is_ok();
    let answer = first.query(&statement, &[]).await;
    second.batch_execute("ROLLBACK").await.ok()?;
    if !kept || answer.is_ok() {
        return None;
    }
    Some(Finding::pooler(MESSAGE))
}

const MESSAGE: &str = "a pooler sends the statements of a session to different servers, where prepared ones are missing";
