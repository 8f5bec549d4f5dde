//! Acquires a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::{Caller, Unsettled};
use syncguard_core::authoring::{holder_text, is_polled};
use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired};
use syncguard_core::{Contention, Fence, LockError, Timestamp};
use tokio_postgres::Row;

use crate::error::{Failure, Remedy, in_doubt};
use crate::inner::Inner;
use crate::names;
use crate::pool::{Answer, Lane, Param};
use crate::record::{Record, check_counter, column, written_time};
use crate::statements::{Statements, TAKEN};

/// Acquires a lock. The statement is sent a second time only if another session came in between.
pub(crate) async fn acquire(
    inner: Arc<Inner>,
    request: AcquireRequest,
    caller: Caller,
) -> Result<AcquireResult, LockError> {
    /// After so many tries that lost against another session, the result is contention.
    const TRIES: u32 = 3;
    inner.check(&caller).await?;
    let storage_key = names::lock_name(&request.key)?;
    let fence_key = names::fence_name(&storage_key)?;
    let holder = holder_text(inner.settings.client_state.holder_of(&request));
    let window = request.fence_window;
    let not_before = window.and_then(|window| window.not_before());
    let parameters = [
        Param::Text(request.lock_id.expose()),
        Param::Text(storage_key.expose()),
        Param::Text(fence_key.expose()),
        Param::Text(request.key.expose()),
        Param::from(request.ttl),
        Param::Text(&holder),
        Param::Number(window.map_or(1, |window| window.at_least().as_i64())),
        Param::Number(window.map_or(Fence::MAX, |window| window.below()).as_i64()),
        not_before.map_or(Param::Millis(0), |time| Param::expiry(Some(time))),
    ];
    let (_, keeps_holders) = inner.acquire_statement().await;
    if request.was_busy
        && let Some(contention) =
            look(&inner, &request, &caller, &parameters[1..2], keeps_holders).await?
    {
        return Ok(AcquireResult::Busy(contention));
    }
    let mut lost = None;
    let usual = if window.is_none() && keeps_holders {
        take_usual(&inner, &caller, &parameters[..6], &mut lost).await
    } else {
        Ok(None)
    };
    let usual = usual.map_err(|error| in_doubt(error, lost.as_ref()).with_key(&request.key))?;
    let (mut tries, mut last_counter) = (0, None);
    let result = loop {
        if let Some((expires_at, fence)) = usual {
            break AcquireResult::Acquired(Acquired::new(request.lock_id, expires_at, fence));
        }
        let (statement, keeps_holders) = inner.acquire_statement().await;
        let answer =
            inner.pool.query_or_failure(Lane::Contender, &caller, statement, &parameters).await;
        let mut answer = match answer {
            Err(Failure { remedy: Remedy::OmitHolder, .. }) if keeps_holders => {
                inner.keeps_holders(false);
                continue;
            }
            Err(failure) => {
                return Err(in_doubt(failure.error, lost.as_ref()).with_key(&request.key));
            }
            Ok(answer) => answer,
        };
        lost = lost.or(answer.lost.take());
        tries += 1;
        match decide(&inner, &answer, &request, storage_key.expose(), keeps_holders)? {
            Verdict::Answer(result) => break result,
            // A session that was faster has moved the counter.
            Verdict::Overtaken(counter) if counter.is_some() && counter == last_counter => {
                return Err(in_doubt(writes_are_dropped(), lost.as_ref()).with_key(&request.key));
            }
            Verdict::Overtaken(_) if tries == TRIES => {
                break AcquireResult::Busy(Contention::default());
            }
            Verdict::Overtaken(counter) => last_counter = counter,
        }
    };
    match (&result, lost) {
        (AcquireResult::Acquired(acquired), lost) => {
            acquired.fence.warn_near_limit("postgres", &request.key);
            if let (Some(_), Some(deadline)) = (lost, caller.void_after()) {
                // An earlier sending may still arrive, even after the release.
                let bound = inner.pool.statement_timeout();
                inner.resent_acquires.note(Unsettled::new(&request, deadline, bound), bound);
            }
            Ok(result)
        }
        // The first sending may still take the lock: only its lock id could have told.
        (AcquireResult::Busy(_) | AcquireResult::Refused(_), Some(lost)) => {
            Err(lost.with_key(&request.key))
        }
        (AcquireResult::Busy(_) | AcquireResult::Refused(_), None) => Ok(result),
    }
}

/// Looks if another caller has the lock, which costs the server a sixth of an acquire that is refused.
async fn look(
    inner: &Inner,
    request: &AcquireRequest,
    caller: &Caller,
    parameters: &[Param<'_>],
    keeps_holders: bool,
) -> Result<Option<Contention>, LockError> {
    let Statements { look, lookup_by_key, .. } = &inner.statements;
    let statement = if keeps_holders { look } else { lookup_by_key };
    let answer = inner.pool.query_or_failure(Lane::Contender, caller, statement, parameters).await;
    let row = match answer {
        // The acquire notes it.
        Err(Failure { remedy: Remedy::OmitHolder, .. }) => None,
        answer => answer.map_err(|failure| failure.error.with_key(&request.key))?.row,
    };
    let Some(row) = row else { return Ok(None) };
    let Some(held) = Record::from_row(&row)?.filter(Record::is_live) else { return Ok(None) };
    if held.lock_id == request.lock_id {
        return Ok(None);
    }
    contention(&row, &held, keeps_holders).map(Some)
}

/// The answer about a live record. In a table without holders nobody knows whether the holder signals.
fn contention(row: &Row, held: &Record, keeps_holders: bool) -> Result<Contention, LockError> {
    let is_polled = keeps_holders && is_polled(column(row, "holder")?, held.fence);
    Ok(Contention::until(held.expires_at, held.now).with_polled(is_polled))
}

/// Takes the lock if its key has a counter and no lock; `None` if the other statement decides.
async fn take_usual(
    inner: &Inner,
    caller: &Caller,
    parameters: &[Param<'_>],
    lost: &mut Option<LockError>,
) -> Result<Option<(Timestamp, Fence)>, LockError> {
    let statement = &inner.statements.acquire_usual;
    match inner.pool.query_or_failure(Lane::Contender, caller, statement, parameters).await {
        Err(Failure { remedy: Remedy::OmitHolder, .. }) => Ok(None),
        Err(failure) => Err(failure.error),
        Ok(answer) => {
            *lost = answer.lost;
            let Some(row) = &answer.row else { return Ok(None) };
            let expires_at = written_time(column::<i64>(row, TAKEN)?)?;
            Ok(Some((expires_at, column::<&str>(row, "taken_fence")?.parse()?)))
        }
    }
}

enum Verdict {
    Answer(AcquireResult),
    /// The lock was free in the statement's snapshot, and then another session was faster. With the counter in the
    /// snapshot if nothing but another value of the counter can have been in the way.
    Overtaken(Option<i64>),
}

fn writes_are_dropped() -> LockError {
    LockError::internal("a trigger or a rule in the database drops what an acquire writes")
}

/// Reads the one row of the statement.
fn decide(
    inner: &Inner,
    answer: &Answer,
    request: &AcquireRequest,
    storage_key: &str,
    keeps_holders: bool,
) -> Result<Verdict, LockError> {
    // No row: the statement lost against other sessions each time.
    let Some(row) = &answer.row else { return Ok(Verdict::Overtaken(None)) };
    if let Some(expires_at) = column::<Option<i64>>(row, TAKEN)? {
        let fence: Fence = column::<&str>(row, "taken_fence")?.parse()?;
        return Ok(acquired(Acquired::new(request.lock_id, written_time(expires_at)?, fence)));
    }
    let stored = Record::from_row(row)?;
    let seen_at = stored.as_ref().map(|stored| stored.now);
    let live = stored.filter(Record::is_live);
    if let Some(held) = &live {
        inner.pool.clock().learn(answer.sent, held.now);
        if held.lock_id == request.lock_id {
            // The same lock id again: the first answer was lost on its way.
            return Ok(acquired(Acquired::new(held.lock_id, held.expires_at, held.fence)));
        }
    }
    let counter = column::<Option<i64>>(row, "counter")?;
    let fence = counter.and_then(|counter| Fence::try_from(counter).ok());
    if let Some(window) = request.fence_window
        && let Some(refusal) = window.refuses_counter(fence.unwrap_or(Fence::ZERO))
    {
        return Ok(Verdict::Answer(AcquireResult::Refused(refusal)));
    }
    let judged_at = column::<Option<i64>>(row, "judged_at_ms")?.map(written_time).transpose()?;
    let refusal = (request.fence_window.zip(judged_at.or(seen_at)))
        .and_then(|(window, at)| window.refuses_time(at));
    if let Some(held) = live.filter(|_| refusal.is_none()) {
        return contention(row, &held, keeps_holders).map(locked);
    }
    if let Some(counter) = counter {
        check_counter(storage_key, counter).map_err(|error| error.with_key(&request.key))?;
    }
    if let Some(refusal) = refusal {
        return Ok(Verdict::Answer(AcquireResult::Refused(refusal)));
    }
    Ok(match column::<Option<&str>>(row, "obstacle")? {
        Some("pinned") => locked(Contention::default()),
        Some(_) => return Err(writes_are_dropped().with_key(&request.key)),
        None => Verdict::Overtaken(judged_at.and(Some(counter.unwrap_or(0)))),
    })
}

fn locked(contention: Contention) -> Verdict {
    Verdict::Answer(AcquireResult::Busy(contention))
}

fn acquired(acquired: Acquired) -> Verdict {
    Verdict::Answer(AcquireResult::Acquired(acquired))
}
