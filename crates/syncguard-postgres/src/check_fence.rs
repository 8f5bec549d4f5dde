//! Ties a transaction of the user to a lock.

use syncguard_core::{Fence, LockError, LockId, NotHeld};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::config::PostgresOptions;
use crate::error::{Phase, classify};
use crate::inner::Inner;
use crate::pool::Param;
use crate::record::Record;
use crate::settings::Settings;
use crate::statements::render;

/// The reason why a transaction must not go on.
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

/// Returns the statement with which a transaction of another driver commits only under a lock: for sqlx, diesel
/// and other drivers, in the same database as the locks. For tokio-postgres, use
/// [`check_fence`](crate::PostgresBackend::check_fence).
///
/// | parameter | type | value |
/// |---|---|---|
/// | `$1` | `text` | the lock id: [`LockId::expose`] |
/// | `$2` | `text` | the fence in 15 digits: its `Display` |
///
/// Run it in the transaction of the work, before the commit, and look at the rows. **One row**: the lock is
/// held, and no other holder gets it before the transaction ends. **No row**: the lock is not held; roll the
/// transaction back. The one column, `fence`, repeats `$2`.
///
/// The row is locked until the transaction ends (`FOR KEY SHARE`): a release and a takeover wait, extends do not.
/// So keep the transaction short. In `REPEATABLE READ` and `SERIALIZABLE` the statement can fail with SQLSTATE
/// 40001, if the lock has changed hands since the transaction began.
///
/// ```
/// use syncguard_postgres::{PostgresOptions, check_fence_sql};
///
/// let sql = check_fence_sql(&PostgresOptions::new())?;
/// assert!(sql.ends_with("FOR KEY SHARE"));
/// # Ok::<(), syncguard_postgres::LockError>(())
/// ```
///
/// # Errors
///
/// `InvalidArgument` for options that are out of range.
pub fn check_fence_sql(options: &PostgresOptions) -> Result<String, LockError> {
    let settings = Settings::new(options.clone())?;
    Ok(render(include_str!("sql/check_fence_elsewhere.sql"), &settings).trim_end().to_owned())
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
            Some(row) => Record::from_row(row)?,
        };
        match record {
            Some(held) if held.is_live() => Ok(()),
            record => Err(CheckFenceError::NotHeld(Record::not_held(record.as_ref()))),
        }
    }
}
