//! Extends a lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ErrorCode, ExtendResult, LockError, Timestamp};
use tokio_postgres::Row;

use crate::error::{Failure, Phase, statement_timed_out};
use crate::inner::Inner;
use crate::pool::{Answer, Lane, Param, millis};
use crate::record::{Record, column, written_time};
use crate::statements::{EXTENDED, Statement};

/// Extends a lock. If its connection is lost, the outcome is unknown, and the extend is not sent again: a first
/// sending that arrives late would undo a later extend.
pub(crate) async fn extend(
    inner: Arc<Inner>,
    request: ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let caller = Caller::new(request.cancellation.as_ref());
    let expected = request.expected_expiry;
    let parameters =
        [Param::Text(request.lock_id.expose()), Param::from(request.ttl), Param::expiry(expected)];
    let answer = send(&inner, Lane::Extend, &caller, &inner.statements.extend, &parameters)
        .await
        .map_err(|error| error.with_lock_id(request.lock_id))?;
    match &answer.row {
        None => Ok(ExtendResult::NotHeld(Record::not_held(None))),
        Some(row) => decide(row, expected),
    }
}

/// Extends locks by one statement; `None` for a lock that the statement has left as it was.
pub(crate) async fn extend_many(
    inner: Arc<Inner>,
    requests: Vec<ExtendRequest>,
) -> Result<Vec<Option<Timestamp>>, LockError> {
    let ids: Vec<&str> = requests.iter().map(|request| request.lock_id.expose()).collect();
    let ttls: Vec<i64> = requests.iter().map(|request| millis(request.ttl.as_millis())).collect();
    // Each extend of a batch has an expected expiry.
    let expected = requests.iter().map(|request| request.expected_expiry.map(Timestamp::as_millis));
    let expected: Vec<i64> = expected.map(|at| at.map_or(0, millis)).collect();
    let parameters = [Param::Texts(&ids), Param::Numbers(&ttls), Param::Numbers(&expected)];
    let (caller, statement) = (Caller::new(None), &inner.statements.extend_many);
    let answer = send(&inner, Lane::Holder, &caller, statement, &parameters).await?;
    let rows: Vec<&Row> = answer.row.iter().chain(&answer.more).collect();
    if rows.len() != requests.len() {
        return Err(Failure::misdirected(Phase::After { writes: true }).error);
    }
    let mut extended = HashMap::new();
    for row in rows {
        if let Some(expires_at) = column::<Option<i64>>(row, EXTENDED)? {
            extended.insert(column::<&str>(row, "asked")?, written_time(expires_at)?);
        }
    }
    Ok(ids.iter().map(|id| extended.get(id).copied()).collect())
}

async fn send(
    inner: &Inner,
    lane: Lane,
    caller: &Caller,
    statement: &Statement,
    parameters: &[Param<'_>],
) -> Result<Answer, LockError> {
    let answer = inner.query(lane, caller, statement, parameters).await?;
    // The answer came after the deadline, as to a process that stood still: nobody may rely on it, see extend.sql.
    let latest = inner.pool.clock().deadline(Duration::ZERO);
    if answer.deadline.is_some_and(|deadline| latest > Some(deadline)) {
        return Err(statement_timed_out(Phase::After { writes: true }));
    }
    Ok(answer)
}

fn decide(row: &Row, expected: Option<Timestamp>) -> Result<ExtendResult, LockError> {
    if let Some(expires_at) = column::<Option<i64>>(row, EXTENDED)? {
        return Ok(ExtendResult::Extended { expires_at: written_time(expires_at)? });
    }
    let held = column::<Option<i64>>(row, "held_expires_at_ms")?.map(written_time).transpose()?;
    if let (Some(held), Some(expected)) = (held, expected)
        && held != expected
    {
        return Ok(ExtendResult::Mismatch { expires_at: held });
    }
    if held.is_some() {
        return Err(LockError::new(
            ErrorCode::ServiceUnavailable,
            "another extend shortened the lock at this moment",
        ));
    }
    let record = Record::from_row(row)?;
    Ok(ExtendResult::NotHeld(Record::not_held(record.as_ref())))
}
