//! Keeping a lock for longer.

use std::sync::Arc;

use syncguard_core::{ExtendRequest, ExtendResult, LockError};

use crate::backend::Inner;
use crate::record::{Record, column, written_time};
use crate::session::{Lane, Param};
use crate::wanted::Wanted;

/// One extend. If its connection was lost and it was sent again, the second answer holds whatever
/// became of the first.
pub(crate) async fn extend(
    inner: Arc<Inner>,
    request: ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let wanted = Wanted::until(request.cancellation.as_ref());
    let parameters = [Param::Text(request.lock_id.expose()), Param::from(request.ttl)];
    let answer = inner
        .session
        .query(Lane::Holder, &wanted, &inner.statements.extend, &parameters)
        .await
        .map_err(|error| error.with_lock_id(request.lock_id))?;
    let record = match &answer.row {
        None => None,
        Some(row) => {
            if let Some(expires_at) = column::<Option<i64>>(row, 0)? {
                return Ok(ExtendResult::Extended { expires_at: written_time(expires_at)? });
            }
            Record::from_row(row, 1)?
        }
    };
    Ok(ExtendResult::NotHeld(Record::not_held(record.as_ref())))
}
