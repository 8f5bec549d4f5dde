//! Finds a lock by its id in all sections: an id does not say which section has its lock.

use std::future::Future;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use syncguard_core::{ErrorCode, Key, LockError, LockId};
use tokio::time::{Instant, timeout_at};

use crate::inner::Inner;
use crate::names::Section;

/// The answer of a section to a request with a lock id.
pub(crate) trait Found {
    /// Returns whether this section has the lock id. At most one section has it.
    fn is_found(&self) -> bool;
}

/// The names for a script that finds a lock by its id: the index entry, which names the lock, and the lock itself if the
/// hint tells it. Redis does not need the second name. Dragonfly refuses a script that uses a name it was not given.
pub(crate) fn names(
    section: &Section,
    lock_id: &LockId,
    hint: Option<&Key>,
) -> Result<(String, Option<String>), LockError> {
    let lock = hint.and_then(|key| section.lock_name(key).ok());
    Ok((section.index_name(lock_id)?, lock))
}

/// Runs a request with a lock id: first in the section of the hint, and if the lock is not there, in all other
/// sections at once, which takes one round trip.
///
/// # Errors
///
/// The errors of the request. If no section has found the lock, the error of any section is the result, because
/// the lock may be in that section.
pub(crate) async fn find<'a, T, O>(
    inner: &'a Inner,
    hint: Option<&Key>,
    request: impl Fn(&'a Section) -> O,
) -> Result<T, LockError>
where
    T: Found,
    O: Future<Output = Result<T, LockError>>,
{
    inner.refuse_cluster_node().await?;
    let until = Instant::now() + inner.connections.command_timeout();
    let sections = inner.layout.sections();
    let likely = inner.layout.likely(hint);
    let mut first = None;
    if let Some(section) = likely {
        let result = request(section).await;
        let is_found = result.as_ref().is_ok_and(Found::is_found);
        if is_found || sections.len() == 1 {
            return result;
        }
        first = Some(result);
    }
    let others = sections.iter().filter(|one| likely.is_none_or(|asked| asked.index != one.index));
    // Boxed: the driver's futures are large, and there are many.
    let asking: FuturesUnordered<_> = others.map(|section| Box::pin(request(section))).collect();
    let merging = Box::pin(timeout_at(until, merge(first, asking)));
    merging.await.unwrap_or_else(|_| Err(too_late()))
}

/// The first answer that found the lock. Otherwise the worst error, or "not found" if there was no error.
async fn merge<T, O>(
    first: Option<Result<T, LockError>>,
    mut asking: FuturesUnordered<O>,
) -> Result<T, LockError>
where
    T: Found,
    O: Future<Output = Result<T, LockError>>,
{
    let mut merged = first;
    let mut is_unknown = matches!(&merged, Some(Err(error)) if error.is_outcome_unknown());
    while let Some(result) = asking.next().await {
        if result.as_ref().is_ok_and(Found::is_found) {
            return result;
        }
        is_unknown |= matches!(&result, Err(error) if error.is_outcome_unknown());
        merged = Some(match merged {
            None => result,
            Some(before) => worse(before, result),
        });
    }
    let merged = merged.unwrap_or_else(|| Err(too_late()));
    if is_unknown { merged.map_err(LockError::with_unknown_outcome) } else { merged }
}

/// An error is worse than an answer, and a lasting error is worse than one that may go away.
fn worse<T>(before: Result<T, LockError>, newer: Result<T, LockError>) -> Result<T, LockError> {
    let rank = |result: &Result<T, LockError>| match result {
        Ok(_) => 0,
        Err(error) => 1 + i32::from(!error.is_retryable()),
    };
    if rank(&newer) > rank(&before) { newer } else { before }
}

fn too_late() -> LockError {
    LockError::new(
        ErrorCode::NetworkTimeout,
        "not all shards have answered within the operation timeout, and the lock may be in one of the others",
    )
    .with_unknown_outcome()
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Answer(bool);

    impl Found for Answer {
        fn is_found(&self) -> bool {
            self.0
        }
    }

    fn error(code: ErrorCode, unknown: bool) -> LockError {
        let error = LockError::new(code, "away");
        if unknown { error.with_unknown_outcome() } else { error }
    }

    async fn merged(results: Vec<Result<Answer, LockError>>) -> Result<bool, (ErrorCode, bool)> {
        let asking: FuturesUnordered<Ready<_>> = results.into_iter().map(ready).collect();
        merge(None, asking)
            .await
            .map(|answer| answer.0)
            .map_err(|error| (error.code(), error.is_outcome_unknown()))
    }

    #[tokio::test]
    async fn nothing_is_said_to_be_nowhere_while_a_shard_has_not_answered() {
        use ErrorCode::{Internal, NetworkTimeout, ServiceUnavailable};
        let (no, yes) = (|| Ok(Answer(false)), || Ok(Answer(true)));
        let away = || Err(error(ServiceUnavailable, false));
        let lost = || Err(error(NetworkTimeout, true));
        let corrupt = || Err(error(Internal, false));
        assert_eq!(merged(vec![no(), no()]).await, Ok(false));
        assert_eq!(merged(vec![no(), yes(), away()]).await, Ok(true));
        assert_eq!(merged(vec![away(), lost(), yes()]).await, Ok(true));
        assert_eq!(merged(vec![no(), away(), no()]).await, Err((ServiceUnavailable, false)));
        assert_eq!(merged(vec![away(), lost(), no()]).await, Err((ServiceUnavailable, true)));
        assert_eq!(merged(vec![lost(), away(), no()]).await, Err((NetworkTimeout, true)));
        assert_eq!(merged(vec![away(), corrupt(), no()]).await, Err((Internal, false)));
        assert_eq!(merged(vec![lost(), corrupt(), away()]).await, Err((Internal, true)));
        assert_eq!(merged(Vec::new()).await, Err((NetworkTimeout, true)));
    }
}
