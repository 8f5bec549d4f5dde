//! Ends an acquire of unknown outcome.

use std::time::Duration;

use syncguard_core::authoring::cancel::{Caller, Settled, Unsettled};
use syncguard_core::{LockError, Timestamp};

use crate::inner::Inner;
use crate::names;
use crate::pool::{Lane, Param};
use crate::record::{column, written_time};

impl Inner {
    /// Releases the lock if it is there, and tells if the acquire can still take it.
    ///
    /// Two attempts follow each other. If no session was acquiring the key during the first attempt, and the
    /// deadline had passed, every sending of the acquire has been committed or refused by then. The second attempt
    /// sees all of them. The first attempt is enough if it finds the lock of an acquire that was sent once.
    pub(crate) async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        let Some(deadline) = acquire.void_after else {
            // The acquire was never sent.
            return Ok(Settled::Done);
        };
        let first = self.release_if_there(acquire).await?;
        if first.released && acquire.is_sent_once {
            return Ok(Settled::Done);
        }
        if !first.alone {
            return Ok(Settled::NotYet(BUSY));
        }
        if first.at <= deadline {
            return Ok(Settled::NotYet(self.pool.clock().passes_in(deadline)));
        }
        self.release_if_there(acquire).await?;
        Ok(Settled::Done)
    }

    async fn release_if_there(&self, acquire: &Unsettled) -> Result<Look, LockError> {
        let storage_key = names::lock_name(&acquire.key)?;
        let parameters = [Param::Text(acquire.lock_id.expose()), Param::Text(storage_key.expose())];
        let answer = self
            .query(Lane::Holder, &Caller::new(None), &self.statements.settle, &parameters)
            .await
            .map_err(|error| error.with_key(&acquire.key).with_lock_id(acquire.lock_id))?;
        let row = answer
            .row
            .as_ref()
            .ok_or_else(|| LockError::internal("PostgreSQL did not answer a clean-up"))?;
        let at = written_time(column(row, "answered_ms")?)?;
        self.pool.clock().learn(answer.sent, at);
        Ok(Look { alone: column(row, "alone")?, released: column(row, "released")?, at })
    }
}

/// The pause while a session acquires the key.
const BUSY: Duration = Duration::from_millis(250);

/// The result of one look.
struct Look {
    /// True if no session was in the middle of acquiring the key.
    alone: bool,
    /// True if the lock was there.
    released: bool,
    at: Timestamp,
}
