//! Ending an acquire whose outcome nobody knows.

use std::time::Duration;

use syncguard_core::authoring::cancel::{Caller, Settled, Unsettled};
use syncguard_core::{LockError, Timestamp};

use crate::inner::Inner;
use crate::names;
use crate::pool::{Lane, Param};
use crate::record::{column, written_time};

impl Inner {
    /// Releases the lock if it is there, and says whether it can still come.
    ///
    /// Two looks, one after the other. If the first one had the key to itself and the deadline was over,
    /// everything that can have been granted has been committed by then, and nothing more will be. The
    /// second one sees all of that. The first one is enough where it has found the lock of an acquire that was sent
    /// once.
    pub(crate) async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        let Some(deadline) = acquire.deadline else {
            // Nothing was sent.
            return Ok(Settled::Done);
        };
        let first = self.look(acquire).await?;
        if first.released && acquire.is_sent_once {
            return Ok(Settled::Done);
        }
        if !first.alone {
            return Ok(Settled::NotYet(BUSY));
        }
        if first.at <= deadline {
            return Ok(Settled::NotYet(self.pool.clock().passes_in(deadline)));
        }
        self.look(acquire).await?;
        Ok(Settled::Done)
    }

    async fn look(&self, acquire: &Unsettled) -> Result<Look, LockError> {
        let storage_key = names::lock_name(&acquire.key)?;
        let parameters = [Param::Text(acquire.lock_id.expose()), Param::Text(storage_key.expose())];
        let answer = self
            .pool
            .query(Lane::Holder, &Caller::new(None), &self.statements.settle, &parameters)
            .await
            .map_err(|error| error.with_key(&acquire.key).with_lock_id(acquire.lock_id))?;
        let row = answer
            .row
            .as_ref()
            .ok_or_else(|| LockError::internal("PostgreSQL did not answer a clean-up"))?;
        let at = written_time(column(row, 2)?)?;
        self.pool.clock().learn(answer.sent, at);
        Ok(Look { alone: column(row, 0)?, released: column(row, 1)?, at })
    }
}

/// How long to wait while somebody acquires the key.
const BUSY: Duration = Duration::from_millis(250);

struct Look {
    /// Whether nobody was in the middle of acquiring the key.
    alone: bool,
    /// Whether the lock was there.
    released: bool,
    at: Timestamp,
}
