//! Whether something between here and PostgreSQL gives a session's statements to different servers.

use syncguard::postgres::PostgresBackend;

use super::finding::Finding;

/// Prepares a statement in one session, lets another one take the server that has it, and asks for it: behind a
/// pooler in transaction mode it is gone.
pub(super) async fn examine(backend: &PostgresBackend) -> Option<Finding> {
    // What cannot be asked is not said: whether locks work at all is tried next.
    let pool = backend.pool();
    if pool.status().max_size < 2 {
        return None;
    }
    let (first, second) = (pool.get().await.ok()?, pool.get().await.ok()?);
    let statement = match first.prepare("SELECT 1").await {
        Ok(statement) => statement,
        // Somebody else's statement of this name is on the server.
        Err(error) if error.code().is_some_and(|code| code.code() == "42P05") => {
            return Some(Finding::pooler(SAYS));
        }
        Err(_) => return None,
    };
    second.batch_execute("BEGIN").await.ok()?;
    // A statement, so that the pooler gives it a server.
    let kept = second.batch_execute("SELECT 1").await.is_ok();
    let answer = first.query(&statement, &[]).await;
    second.batch_execute("ROLLBACK").await.ok()?;
    if !kept || answer.is_ok() {
        return None;
    }
    Some(Finding::pooler(SAYS))
}

const SAYS: &str =
    "a pooler gives the statements of a session to different servers, where prepared ones are gone";
