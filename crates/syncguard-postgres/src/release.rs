//! Releases a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{LockError, NotHeld, ReleaseResult};
use tokio_postgres::Row;

use crate::error::in_doubt;
use crate::inner::Inner;
use crate::names;
use crate::pool::{Answer, Lane, Param};
use crate::record::{Record, column};
use crate::statements::RELEASED;

/// Releases a lock.
pub(crate) async fn release(
    inner: Arc<Inner>,
    request: ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let caller = Caller::new(request.cancellation.as_ref());
    let sent = match request.raised() {
        None => {
            let parameters = [Param::Text(request.lock_id.expose())];
            let query = |statement| inner.query(Lane::Holder, &caller, statement, &parameters);
            match query(&inner.statements.release_usual).await {
                Ok(Answer { row: None, lost, .. }) => {
                    let answer = query(&inner.statements.release).await;
                    let in_doubt = |error| in_doubt(error, lost.as_ref());
                    answer
                        .map_err(in_doubt)
                        .map(|answer| Answer { lost: lost.or(answer.lost), ..answer })
                }
                answered => answered,
            }
        }
        Some((key, at_least)) => {
            let storage_key = names::lock_name(key)?;
            let fence_key = names::fence_name(&storage_key)?;
            let parameters = [
                Param::Text(request.lock_id.expose()),
                Param::Text(storage_key.expose()),
                Param::Text(fence_key.expose()),
                Param::Text(key.expose()),
                Param::Number(at_least.as_i64()),
            ];
            let statement = &inner.statements.release_counted;
            inner.query(Lane::Holder, &caller, statement, &parameters).await
        }
    };
    let answer = sent.map_err(|error| error.with_lock_id(request.lock_id))?;
    let not_held = match &answer.row {
        None => NotHeld::NotFound,
        Some(row) if column::<Option<bool>>(row, RELEASED)? == Some(true) => {
            return Ok(ReleaseResult::Released);
        }
        Some(row) => why_not_held(row)?,
    };
    match (not_held, answer.lost) {
        // The lock may be gone because the first sending released it.
        (NotHeld::NotFound, Some(lost)) => Err(lost.with_lock_id(request.lock_id)),
        (not_held, _) => Ok(ReleaseResult::NotHeld(not_held)),
    }
}

fn why_not_held(row: &Row) -> Result<NotHeld, LockError> {
    Ok(match Record::from_row(row)? {
        Some(record) => Record::not_held(Some(&record)),
        // The lock expired while another session held its row, and then the statement deleted it.
        None => NotHeld::Expired,
    })
}
