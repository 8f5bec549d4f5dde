//! The duties of a store with conditions.

use std::fmt;
use std::future::{Future, ready};

use super::records::{Change, Found, Parts, Record, Seen, StoredLock, Written};
use crate::authoring::attempts::Attempt;
use crate::authoring::failure::Fault;
use crate::authoring::store_time::StoreTime;
use crate::contract::key_watch::KeyWatch;
use crate::contract::response::NotHeld;
use crate::inventory::page::{FenceCounter, Page};
use crate::inventory::request::ListRequest;
use crate::value::{Key, LockError, LockId};

/// A store whose writes have preconditions.
///
/// Each call is one request, or a few where a method says so, within [`Attempt::call_deadline`]. The errors of records have
/// only hashes of keys in them.
pub trait ConditionalStore: Send + Sync + 'static {
    /// The short name of the backend, as in [`BackendCapabilities`](crate::contract::BackendCapabilities).
    const NAME: &'static str;

    /// True if the store carries out several changes, each under its own conditions, by one request.
    const WRITES_EACH: bool = false;

    /// One state of a record, which never comes back. A version is greater than the earlier ones of the same record.
    type Version: Clone + fmt::Debug + PartialOrd + Send + Sync + 'static;

    /// The store's time. An operation asks for it behind its first read.
    ///
    /// # Errors
    ///
    /// A time that is out of range, or not known yet.
    fn time(&self) -> impl Future<Output = Result<StoreTime, Fault>> + Send;

    /// The time for a strict backend that takes a lock, or takes one over that another holder has left.
    ///
    /// # Errors
    ///
    /// As [`StoreTime::check`].
    fn strict_time(
        &self,
        takes_over: bool,
    ) -> impl Future<Output = Result<StoreTime, Fault>> + Send {
        async move {
            let time = self.time().await?;
            Ok(time.check(takes_over).map(|()| time)?)
        }
    }

    /// Checks that the store is fit for locks. Each acquire asks, behind its read.
    ///
    /// # Errors
    ///
    /// The reason why the store gives out no locks.
    fn may_acquire(&self) -> Result<(), LockError> {
        Ok(())
    }

    /// The lock that was found, if it has this id and is live; else the reason why nobody holds it.
    ///
    /// # Errors
    ///
    /// As [`time`](Self::time).
    fn judge(
        &self,
        found: Option<StoredLock<Self::Version>>,
        lock_id: LockId,
    ) -> impl Future<Output = Result<Result<StoredLock<Self::Version>, NotHeld>, Fault>> + Send
    {
        async move {
            let Some(held) = found.filter(|held| held.record.lock_id == lock_id) else {
                return Ok(Err(NotHeld::NotFound));
            };
            let now = self.time().await?.earliest;
            Ok(if held.record.is_live(now) { Ok(held) } else { Err(NotHeld::Expired) })
        }
    }

    /// Reads parts of a key.
    ///
    /// # Errors
    ///
    /// The failures of the call. A corrupt record is an error within what was seen.
    fn read(
        &self,
        key: &Key,
        parts: Parts<'_>,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Seen<Self::Version>, Fault>> + Send;

    /// Finds the locks with this id: first under the hinted key, then wherever it is. Another content of the hinted key is
    /// no error.
    ///
    /// # Errors
    ///
    /// The failures of the calls, and corrupt records.
    fn find(
        &self,
        lock_id: LockId,
        hint: Option<&Key>,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Found<Self::Version>, Fault>> + Send;

    /// Carries out a change.
    ///
    /// # Errors
    ///
    /// The failures of the call, with an unknown outcome if the change may have been carried out or may arrive later.
    /// [`Fault::conflict`] if a condition did not hold and the answer does not tell the present state.
    fn write(
        &self,
        change: &Change<'_, Self::Version>,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Written<Self::Version>, Fault>> + Send;

    /// Carries out changes of different keys by one request, each under its own conditions. Answers in their order: the new
    /// version of what was carried out.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn write_each(
        &self,
        changes: &[Change<'_, Self::Version>],
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Vec<Option<Self::Version>>, Fault>> + Send {
        let _ = attempt;
        ready(Ok(vec![None; changes.len()]))
    }

    /// Reads a page of locks, also of those that have expired.
    ///
    /// # Errors
    ///
    /// The failures of the call.
    fn list_locks(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Page<Record>, Fault>> + Send;

    /// Reads a page of counters.
    ///
    /// # Errors
    ///
    /// The failures of the call.
    fn list_counters(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Page<FenceCounter>, Fault>> + Send;

    /// Watches the lock of a key; `None` on a store without signals.
    fn watch(&self, key: &Key) -> impl Future<Output = Option<KeyWatch>> + Send {
        let _ = key;
        ready(None)
    }
}
