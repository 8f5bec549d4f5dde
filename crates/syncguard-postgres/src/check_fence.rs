//! Tying the user's own transaction to a lock.

use syncguard_core::{Fence, LockError, LockId, NotHeld};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::error::{Phase, classify};
use crate::inner::Inner;
use crate::pool::Param;
use crate::record::Record;

/// Why a transaction must not go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckFenceError {
    /// The lock is not held any more, or was never acquired with this fence.
    #[error("the lock is not held any more: {}", .0.as_str())]
    NotHeld(NotHeld),
    /// The check itself failed.
    #[error(transparent)]
    Failed(#[from] LockError),
}

impl Inner {
    pub(crate) async fn check_fence(
        &self,
        transaction: &Transaction<'_>,
        lock_id: LockId,
        fence: Fence,
    ) -> Result<(), CheckFenceError> {
        let fence = fence.to_string();
        let rows = transaction
            .query_typed(
                &self.statements.check_fence.sql,
                &[(&Param::Text(lock_id.expose()), Type::TEXT), (&Param::Text(&fence), Type::TEXT)],
            )
            .await
            .map_err(|error| classify(&error, Phase::Before).error.with_lock_id(lock_id))?;
        let record = match rows.first() {
            None => None,
            Some(row) => Record::from_row(row, 0)?,
        };
        match record {
            Some(held) if held.is_live() => Ok(()),
            record => Err(CheckFenceError::NotHeld(Record::not_held(record.as_ref()))),
        }
    }
}
