//! Extends a lock.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ErrorCode, ExtendResult, LockError, Timestamp};
use tokio_postgres::Row;

use crate::error::{Phase, statement_timed_out};
use crate::inner::Inner;
use crate::pool::{Lane, Param};
use crate::record::{Record, column, written_time};
use crate::statements::EXTENDED;

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
    let answer = inner
        .query(Lane::Holder, &caller, &inner.statements.extend, &parameters)
        .await
        .map_err(|error| error.with_lock_id(request.lock_id))?;
    // The answer came after the deadline, as to a process that stood still: nobody may rely on it, see extend.sql.
    let latest = inner.pool.clock().deadline(Duration::ZERO);
    if answer.deadline.is_some_and(|deadline| latest > Some(deadline)) {
        let error = statement_timed_out(Phase::After { writes: true });
        return Err(error.with_lock_id(request.lock_id));
    }
    match &answer.row {
        None => Ok(ExtendResult::NotHeld(Record::not_held(None))),
        Some(row) => decide(row, expected),
    }
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
