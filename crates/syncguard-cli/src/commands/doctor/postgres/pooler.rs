//! Detects a pooler that sends the statements of one session to different servers.

use syncguard::postgres::PostgresBackend;

use crate::commands::doctor::finding::Finding;

/// The most sessions that take a server.
const SESSIONS: usize = 6;

/// Prepares a statement in one session, lets other sessions take the idle servers, one of which has it, and runs it in the
/// first: behind a pooler in transaction mode the statement is missing.
pub(super) async fn examine(backend: &PostgresBackend) -> Option<Finding> {
    // A check that fails reports nothing: the permissions are tried next.
    let pool = backend.pool();
    let first = pool.get().await.ok()?;
    let statement = match first.prepare("SELECT 1").await {
        Ok(statement) => statement,
        // Another client's statement of this name is on the server.
        Err(error) if error.code().is_some_and(|code| code.code() == "42P05") => {
            return Some(Finding::pooler(MESSAGE));
        }
        Err(_) => return None,
    };
    let (mut others, mut is_pooled) = (Vec::new(), false);
    while !is_pooled && others.len() + 1 < pool.status().max_size.min(SESSIONS) {
        let Ok(other) = pool.get().await else { break };
        // A statement makes the pooler assign a server.
        let kept = other.batch_execute("BEGIN; SELECT 1").await.is_ok();
        others.push(other);
        is_pooled = kept && first.query(&statement, &[]).await.is_err();
        if !kept {
            break;
        }
    }
    for other in others {
        other.batch_execute("ROLLBACK").await.ok()?;
    }
    is_pooled.then(|| Finding::pooler(MESSAGE))
}

const MESSAGE: &str = "a pooler sends the statements of a session to different servers, where prepared ones are missing";
