//! The objects of a key: how they are read, found and changed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use object_store::PutMode;
use object_store::path::Path;
use syncguard_core::authoring::conditional::{
    Change, ConditionalStore, Counter, Found, LockChange, Parts, Record, Seen, StoredLock, Written,
};
use syncguard_core::authoring::{Attempt, Fault, Retries, RetryPauses, StoreTime, corrupt_record};
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Jitter, Key, LockError, LockId, NotHeld};
use tokio::sync::OnceCell;

use crate::client::{Client, Put};
use crate::conditions;
use crate::layout::Layout;
use crate::record::{Body, Version};

/// Only the holder of a lock changes it, so conflicts are rare.
pub(crate) const RETRIES: Retries = Retries {
    conflicts: 16,
    failures: u32::MAX,
    silences: u32::MAX,
    pauses: RetryPauses {
        first: Duration::from_millis(50),
        longest: Duration::from_secs(2),
        jitter: Jitter::Full,
    },
};

/// How many objects of a page are read at once.
const READS_AT_ONCE: usize = 16;

/// The store, and the names of the objects.
pub(crate) struct Objects {
    pub(crate) client: Arc<Client>,
    pub(crate) layout: Layout,
    /// Set once the store has been found fit for locks.
    pub(crate) is_fit: OnceCell<()>,
    /// True if the check has races as well.
    pub(crate) is_thorough: bool,
    pub(crate) request_timeout: Duration,
}

impl Objects {
    /// Checks that the store heeds conditions, unless that is known.
    pub(crate) async fn check(&self) -> Result<(), Fault> {
        let checked = self.is_fit.get_or_try_init(|| async {
            let (client, layout) = (&self.client, &self.layout);
            let report =
                conditions::check(client, layout, self.is_thorough, self.request_timeout).await?;
            Ok(conditions::refusal(&report)?)
        });
        checked.await.copied()
    }

    async fn object(
        &self,
        key: &Key,
        attempt: &Attempt,
    ) -> Result<(Path, Option<Result<Version, LockError>>), Fault> {
        let name = self.layout.key(key)?;
        let found = self.client.get(&name, attempt.call_deadline()).await?;
        Ok((name, found))
    }

    /// The parts of a key in what was read. The index entry of a lock that an acquire finds to be its own is written once more:
    /// the answer to the write of the lock may have been lost, and then the entry was not written.
    async fn seen(
        &self,
        key: &Key,
        parts: Parts<'_>,
        (name, found): (Path, Option<Result<Version, LockError>>),
        attempt: &Attempt,
    ) -> Result<Seen<Version>, Fault> {
        let name = name.as_ref();
        let found = found.map(|found| found.and_then(|it| it.expect_key(name, key).map(|()| it)));
        let seen = match found.transpose() {
            Ok(found) => Seen {
                lock: found.as_ref().map_or(Ok(None), |version| version.lock(name, key)),
                counter: Ok(found.as_ref().map(Version::counter)),
                is_id_in_use: false,
            },
            Err(it) => Seen { lock: Err(it.clone()), counter: Err(it), is_id_in_use: false },
        };
        if let (Parts::Acquire { lock_id, .. }, Ok(Some(held))) = (parts, &seen.lock)
            && held.record.lock_id == lock_id
        {
            self.put_index(lock_id, key, attempt).await?;
        }
        Ok(seen)
    }

    /// Writes the entry of a lock id, by which the lock is found without its key.
    async fn put_index(&self, lock_id: LockId, key: &Key, attempt: &Attempt) -> Result<(), Fault> {
        let (name, text) = (self.layout.index(lock_id)?, key.expose().as_bytes().to_vec());
        let put = self.client.put(&name, text, PutMode::Overwrite, attempt.call_deadline());
        put.await.map(drop)
    }

    /// Deletes the entry of a lock id that is not used any more. An entry that stays leads to a lock with another id.
    async fn delete_index(&self, lock_id: LockId, attempt: &Attempt) {
        let Ok(name) = self.layout.index(lock_id) else { return };
        if let Err(fault) = self.client.delete(&name, attempt.call_deadline()).await {
            tracing::debug!(error = %fault.error, "the index entry of a lock was not deleted");
        }
    }

    /// The state that a change is based on, `None` for an absent object; a conflict if its parts are of different states, of
    /// which one is not the present one.
    fn base<'c>(change: &Change<'c, Version>) -> Result<Option<&'c Version>, Fault> {
        let counter = change.counter.map(|(seen, _)| seen.map(|seen| &seen.version));
        let lock = match change.lock {
            None => return Ok(counter.flatten()),
            Some(LockChange::Take { seen, .. }) => seen,
            Some(LockChange::Extend { seen, .. } | LockChange::Delete { seen }) => Some(seen),
        };
        let lock = lock.map(|seen| &seen.version);
        match counter {
            Some(counter) if lock.is_some() && lock != counter => Err(Fault::conflict()),
            Some(counter) => Ok(counter),
            None => Ok(lock),
        }
    }

    /// True if the state that a change is based on is not what the change takes it for: the memory of a backend knows the fence
    /// of a lock, but not that the counter was raised since.
    fn is_mistaken(change: &Change<'_, Version>, base: &Version) -> bool {
        let counter = change.counter.and_then(|(seen, _)| seen);
        let takes_absent = matches!(change.lock, Some(LockChange::Take { seen: None, .. }));
        counter.is_some_and(|seen| seen.last != base.last()) || takes_absent && base.has_lock()
    }

    /// The page of the names behind the last one, of which each is read.
    async fn list<T>(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
        entry: impl Fn(&str, &Key, &Version) -> Result<Option<T>, LockError>,
    ) -> Result<Page<T>, Fault> {
        let (size, place) = (request.page_size(), request.expose_place());
        let (folder, mut names) = (self.layout.keys(), Vec::new());
        for part in self.layout.parts(request.expose_prefix()) {
            let (behind, left) =
                (place.filter(|place| place.starts_with(&part)), size - names.len());
            // A part before the place is done.
            if left > 0 && (behind.is_some() || place.is_none_or(|place| *place < *part)) {
                let deadline = attempt.call_deadline();
                names.extend(self.client.list(&folder, &part, behind, left, deadline).await?);
            }
        }
        let last = names.last().filter(|_| names.len() >= size);
        let mut page = Page::new(last.map(|last| request.behind(last.as_ref())));
        let read = stream::iter(names).map(|name| async move {
            let found = self.client.get(&name, attempt.call_deadline()).await;
            found.map(|found| (name, found))
        });
        let mut read = std::pin::pin!(read.buffered(READS_AT_ONCE));
        while let Some(found) = read.next().await {
            let (name, Some(version)) = found? else { continue };
            let name = name.as_ref();
            let read = version.and_then(|version| {
                let key = version.key(name)?;
                if self.layout.key(&key)?.as_ref() != name {
                    return Err(corrupt_record(name, "key is that of another object"));
                }
                if request.includes(key.expose()) { entry(name, &key, &version) } else { Ok(None) }
            });
            if let Some(entry) = read.transpose() {
                page.push(name, entry);
            }
        }
        Ok(page)
    }
}

impl ConditionalStore for Objects {
    const NAME: &'static str = "object-store";
    type Version = Version;

    async fn time(&self) -> Result<StoreTime, Fault> {
        self.client.time().await
    }

    /// One read. The first acquire of a backend checks the store before it.
    async fn read(
        &self,
        key: &Key,
        parts: Parts<'_>,
        attempt: &Attempt,
    ) -> Result<Seen<Version>, Fault> {
        let mut is_id_in_use = false;
        if let Parts::Acquire { lock_id, other } = parts {
            self.check().await?;
            if let Some(other) = other {
                let (name, found) = self.object(other, attempt).await?;
                // An object that cannot be read is not our lock.
                let lock = found.and_then(|found| found.ok()?.lock(name.as_ref(), other).ok()?);
                is_id_in_use = self.judge(lock, lock_id).await?.is_ok();
            }
        }
        let found = self.object(key, attempt).await?;
        Ok(Seen { is_id_in_use, ..self.seen(key, parts, found, attempt).await? })
    }

    /// One read of the hinted key; then, if the lock is not there, one of the index entry, and one of the key in it.
    async fn find(
        &self,
        lock_id: LockId,
        hint: Option<&Key>,
        attempt: &Attempt,
    ) -> Result<Found<Version>, Fault> {
        if let Some(hint) = hint {
            let (name, found) = self.object(hint, attempt).await?;
            let lock = found.and_then(|found| found.ok()?.lock(name.as_ref(), hint).ok()?);
            if lock.as_ref().is_some_and(|lock| lock.record.lock_id == lock_id) {
                return Ok(self.judge(lock, lock_id).await?.into());
            }
        }
        let index = self.layout.index(lock_id)?;
        let Some((_, entry)) = self.client.fetch(&index, attempt.call_deadline()).await? else {
            return Ok(Err(NotHeld::NotFound).into());
        };
        let key = String::from_utf8(entry).ok().and_then(|key| Key::new(key).ok());
        let key =
            key.ok_or_else(|| corrupt_record(index.as_ref(), "the index entry is not a key"))?;
        let lock = self.read(&key, Parts::Lock, attempt).await?.lock?;
        Ok(self.judge(lock, lock_id).await?.into())
    }

    /// One write of the key's object; a lock that is taken also gets its index entry, behind it, and a lock that is gone loses it.
    ///
    /// So an entry may be missing only for a lock of an acquire that was not answered, and one that is left over leads to a lock
    /// with another id.
    async fn write(
        &self,
        change: &Change<'_, Version>,
        attempt: &Attempt,
    ) -> Result<Written<Version>, Fault> {
        let (key, base, parts) = (change.key, Self::base(change)?, change.parts());
        let name = self.layout.key(key)?;
        if let Some(base) = base.filter(|base| Self::is_mistaken(change, base)) {
            let found = (name, Some(Ok(base.clone())));
            return Ok(Written::Refused(self.seen(key, parts, found, attempt).await?));
        }
        let mut body = base.map_or_else(|| Body::first(key).next(), |base| base.body.next())?;
        if let Some((_, last)) = change.counter {
            body.count(last);
        }
        match &change.lock {
            None => {}
            Some(LockChange::Take { record, .. }) => body.take(record),
            Some(LockChange::Extend { expires_at, .. }) => body.extend(*expires_at),
            Some(LockChange::Delete { .. }) => body.release(),
        }
        let mode = base.map_or(PutMode::Create, |base| PutMode::Update(base.tag.clone()));
        let version =
            match self.client.put(&name, body.bytes()?, mode, attempt.call_deadline()).await? {
                Put::Done(tag) => Version { body: body.into(), tag },
                Put::Refused => match self.object(key, attempt).await? {
                    // The store, or a proxy before it, has carried the write out and then tried it again.
                    (_, Some(Ok(version))) if version.body.nonce == body.nonce => version,
                    found => {
                        return Ok(Written::Refused(self.seen(key, parts, found, attempt).await?));
                    }
                },
            };
        match &change.lock {
            Some(LockChange::Take { seen, record }) => {
                if let Err(mut fault) = self.put_index(record.lock_id, key, attempt).await {
                    // The lock is there, and nobody would find it by its id.
                    fault.error = fault.error.with_unknown_outcome();
                    return Err(fault);
                }
                if let Some(before) = seen.filter(|seen| seen.record.lock_id != record.lock_id) {
                    self.delete_index(before.record.lock_id, attempt).await;
                }
            }
            Some(LockChange::Delete { seen }) => {
                self.delete_index(seen.record.lock_id, attempt).await;
            }
            _ => {}
        }
        Ok(Written::Done(Some(version)))
    }

    async fn list_locks(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> Result<Page<Record>, Fault> {
        let entry = |name: &str, key: &Key, version: &Version| {
            let lock = version.lock(name, key)?;
            Ok(lock.map(|StoredLock { record, .. }| record))
        };
        self.list(request, attempt, entry).await
    }

    async fn list_counters(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> Result<Page<FenceCounter>, Fault> {
        let entry = |_: &str, key: &Key, version: &Version| {
            let Counter { last, .. } = version.counter();
            Ok(Some(FenceCounter::new(key.clone(), last)))
        };
        self.list(request, attempt, entry).await
    }
}
