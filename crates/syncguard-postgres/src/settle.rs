//! Ending an acquire whose outcome nobody knows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use syncguard_core::cancel::{Caller, Settled, Unsettled};
use syncguard_core::{LockError, LockId, StorageLimits, Timestamp, make_storage_key};

use crate::inner::Inner;
use crate::record::{column, written_time};
use crate::session::{Lane, Param};

impl Inner {
    /// Releases the lock if it is there, and says whether it can still come.
    ///
    /// Two looks, one after the other. If the first one had the key to itself and the deadline was over,
    /// everything that can have been granted has been committed by then, and nothing more will be. The
    /// second one sees all of that.
    pub(crate) async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        let Some(deadline) = acquire.deadline else {
            // Nothing was sent.
            return Ok(Settled::Done);
        };
        let first = self.look(acquire).await?;
        if !first.alone {
            return Ok(Settled::NotYet(BUSY));
        }
        if first.at <= deadline {
            return Ok(Settled::NotYet(self.session.clock().passes_in(deadline)));
        }
        self.look(acquire).await?;
        Ok(Settled::Done)
    }

    async fn look(&self, acquire: &Unsettled) -> Result<Look, LockError> {
        let storage_key = make_storage_key("", acquire.key.expose(), StorageLimits::POSTGRES)?;
        let parameters = [Param::Text(acquire.lock_id.expose()), Param::Text(&storage_key)];
        let answer = self
            .session
            .query(Lane::Holder, &Caller::new(None), &self.statements.settle, &parameters)
            .await
            .map_err(|error| error.with_key(&acquire.key).with_lock_id(acquire.lock_id))?;
        let row = answer
            .row
            .as_ref()
            .ok_or_else(|| LockError::internal("PostgreSQL did not answer a clean-up"))?;
        let at = written_time(column(row, 2)?)?;
        self.session.clock().learn(answer.sent, at);
        Ok(Look { alone: column(row, 0)?, at })
    }
}

/// While somebody is at the key.
const BUSY: Duration = Duration::from_millis(250);

struct Look {
    /// Whether nobody was in the middle of acquiring the key.
    alone: bool,
    at: Timestamp,
}

/// Locks whose acquire was sent more than once: an earlier sending may arrive after the release.
#[derive(Debug, Default)]
pub(crate) struct Doubtful(Mutex<HashMap<LockId, Unsettled>>);

impl Doubtful {
    /// More than a pool can lose connections while one lock is held. Beyond it the oldest doubts are as
    /// good as any to drop.
    const LIMIT: usize = 10_000;

    pub(crate) fn note(&self, acquire: Unsettled) {
        let mut doubtful = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if doubtful.len() >= Self::LIMIT
            && let Some(any) = doubtful.keys().next().copied()
        {
            doubtful.remove(&any);
        }
        doubtful.insert(acquire.lock_id, acquire);
    }

    /// What is to be settled now that the lock was released.
    pub(crate) fn take(&self, lock_id: LockId) -> Option<Unsettled> {
        let mut doubtful = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if doubtful.is_empty() {
            return None;
        }
        doubtful.remove(&lock_id)
    }
}
