//! Giving a lock back.

use std::sync::Arc;

use syncguard_core::cancel::Caller;
use syncguard_core::{LockError, NotHeld, ReleaseRequest, ReleaseResult};
use tokio_postgres::Row;

use crate::error::{in_doubt, kept_late};
use crate::inner::Inner;
use crate::record::{Record, column};
use crate::session::{Lane, Param};

/// One release.
pub(crate) async fn release(
    inner: Arc<Inner>,
    request: ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let caller = Caller::new(request.cancellation.as_ref());
    let parameters = [Param::Text(request.lock_id.expose())];
    let mut lost = None;
    for _ in 0..2 {
        let mut answer = inner
            .session
            .query(Lane::Holder, &caller, &inner.statements.release, &parameters)
            .await
            .map_err(|error| error.with_lock_id(request.lock_id))?;
        lost = lost.or(answer.lost.take());
        let not_held = match &answer.row {
            None => NotHeld::NotFound,
            Some(row) => {
                inner.session.learn(&answer, row, 9)?;
                if column(row, 0)? {
                    return Ok(ReleaseResult::Released);
                }
                if column(row, 8)? {
                    continue;
                }
                why_not_held(row)?
            }
        };
        return match (not_held, lost) {
            // It may be gone because the first sending released it.
            (NotHeld::NotFound, Some(lost)) => Err(lost.with_lock_id(request.lock_id)),
            (not_held, _) => Ok(ReleaseResult::NotHeld(not_held)),
        };
    }
    Err(in_doubt(kept_late(), lost.as_ref()).with_lock_id(request.lock_id))
}

fn why_not_held(row: &Row) -> Result<NotHeld, LockError> {
    Ok(match Record::from_row(row, 1)? {
        Some(record) => Record::not_held(Some(&record)),
        // It expired while another session held its row up, and then it was deleted.
        None => NotHeld::Expired,
    })
}
