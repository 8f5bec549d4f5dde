//! Giving a lock back.

use std::sync::Arc;

use syncguard_core::{LockError, NotHeld, ReleaseRequest, ReleaseResult};

use crate::backend::Inner;
use crate::record::{Record, column};
use crate::session::{Lane, Param};
use crate::wanted::Wanted;

/// One release.
pub(crate) async fn release(
    inner: Arc<Inner>,
    request: ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let wanted = Wanted::until(request.cancellation.as_ref());
    let parameters = [Param::Text(request.lock_id.expose())];
    let answer = inner
        .session
        .query(Lane::Holder, &wanted, &inner.statements.release, &parameters)
        .await
        .map_err(|error| error.with_lock_id(request.lock_id))?;
    let record = match &answer.row {
        None => None,
        Some(row) if column(row, 0)? => return Ok(ReleaseResult::Released),
        Some(row) => Record::from_row(row, 1)?,
    };
    match (Record::not_held(record.as_ref()), answer.lost) {
        // It may be gone because the first sending released it.
        (NotHeld::NotFound, Some(lost)) => Err(lost.with_lock_id(request.lock_id)),
        (not_held, _) => Ok(ReleaseResult::NotHeld(not_held)),
    }
}
