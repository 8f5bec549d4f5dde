//! The documents of a key: how they are read, found and changed.

use std::sync::Arc;
use std::time::Duration;

use gcloud_sdk::google::firestore::v1::Document;
use syncguard_core::authoring::RetryPauses;
use syncguard_core::authoring::conditional::{
    Change, ConditionalStore, Found, LockChange, Parts, Record, Seen, Written,
};
use syncguard_core::authoring::signals::SignalHub;
use syncguard_core::authoring::{Attempt, Fault, Retries, StoreClock, StoreTime};
use syncguard_core::contract::KeyWatch;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Jitter, Key, LockError, LockId};

use crate::by_lock_id;
use crate::client::Client;
use crate::config::FirestoreOptions;
use crate::document::{self, KEY, KEY_DEBUG, Version, key_of};
use crate::names::{Layout, Names, storage_key_of};
use crate::service::{Maker, Service};
use crate::{query, signals};

/// The calls after a broken call may still fail with the end of the same connection: on a busy machine, the second to the
/// fifth call did.
pub(crate) const RETRIES: Retries = Retries {
    conflicts: FirestoreOptions::DEFAULT_CONFLICT_RETRIES,
    failures: 6,
    silences: 0,
    pauses: RetryPauses {
        first: Duration::from_millis(5),
        longest: Duration::from_millis(400),
        jitter: Jitter::Full,
    },
};

/// The database, and the names of the documents.
pub(crate) struct Firestore {
    pub(crate) client: Arc<Client>,
    pub(crate) layout: Layout,
    pub(crate) signals: SignalHub,
}

impl Firestore {
    pub(crate) fn new(
        service: Arc<dyn Service>,
        maker: Option<Box<dyn Maker>>,
        options: &FirestoreOptions,
    ) -> Result<Self, LockError> {
        let layout = options.check()?;
        let clock = StoreClock::of(options.clocks, Arc::clone(&options.common.clock));
        let client = Arc::new(Client::new(service, maker, clock, layout.database()));
        let signals = signals::hub(Arc::clone(&client), options.common.request_timeout);
        Ok(Self { client, layout, signals })
    }

    /// Reads a page by one query: of all keys in the order of the documents' names, and of a prefix in the order of the keys.
    /// The latter uses the index that Firestore makes automatically for the field `key` of locks and `keyDebug` of counters, and
    /// misses documents without this field.
    async fn list<T>(
        &self,
        (parent, collection): (String, &str),
        field: &str,
        request: &ListRequest,
        attempt: &Attempt,
        entry: fn(Document) -> Result<T, LockError>,
    ) -> Result<Page<T>, Fault> {
        let query = query::page(collection, field, request);
        let documents = self.client.query(parent, query, attempt.call_deadline()).await?;
        let last = documents.last().filter(|_| documents.len() >= request.page_size());
        let mut page = Page::new(last.and_then(|last| query::behind(last, field, request)));
        for document in documents {
            let name = storage_key_of(&document.name).to_owned();
            page.push(&name, entry(document));
        }
        Ok(page)
    }
}

impl ConditionalStore for Firestore {
    const NAME: &'static str = "firestore";
    type Version = Version;

    /// Each answer tells it.
    async fn time(&self) -> Result<StoreTime, Fault> {
        Ok(self.client.clock.now()?)
    }

    async fn read(
        &self,
        key: &Key,
        parts: Parts<'_>,
        attempt: &Attempt,
    ) -> Result<Seen<Version>, Fault> {
        let Names { lock, fence } = self.layout.names(key)?;
        let mut names = Vec::with_capacity(3);
        names.extend(parts.have_lock().then_some(lock));
        names.extend(parts.have_counter().then_some(fence));
        if let Parts::Acquire { other: Some(other), .. } = parts {
            names.push(self.layout.lock_name(other)?);
        }
        let mut documents = self.client.read(&names, attempt.call_deadline()).await?.into_iter();
        let mut next = |is_there: bool| if is_there { documents.next().flatten() } else { None };
        let lock = next(parts.have_lock()).map(document::lock).transpose();
        let counter = next(parts.have_counter());
        let counter = counter.as_ref().map(document::counter).transpose();
        // A document that cannot be read is not our lock.
        let other = next(true).and_then(|other| document::lock(other).ok());
        let is_id_in_use = match (parts, other) {
            (Parts::Acquire { lock_id, .. }, Some(other)) => {
                let now = self.time().await?.earliest;
                other.record.lock_id == lock_id && other.record.is_live(now)
            }
            _ => false,
        };
        Ok(Seen { lock, counter, is_id_in_use })
    }

    /// One read of the hinted key, then one query if the lock is not there.
    async fn find(
        &self,
        lock_id: LockId,
        hint: Option<&Key>,
        attempt: &Attempt,
    ) -> Result<Found<Version>, Fault> {
        if let Some(hint) = hint {
            let seen = self.read(hint, Parts::Lock, attempt).await?.lock;
            let lock = self.judge(seen.ok().flatten(), lock_id).await?;
            if lock.is_ok() {
                return Ok(lock.into());
            }
        }
        // The query has no limit, so that several documents with one id are noticed.
        let (parent, collection) = self.layout.lock_parent();
        let query = query::by_lock_id(collection, lock_id);
        let documents = self.client.query(parent, query, attempt.call_deadline()).await?;
        let now = self.time().await?.earliest;
        let locks = documents.into_iter().map(document::lock).collect::<Result<_, _>>()?;
        Ok(by_lock_id::choose(locks, lock_id, now)?)
    }

    async fn write(
        &self,
        change: &Change<'_, Version>,
        attempt: &Attempt,
    ) -> Result<Written<Version>, Fault> {
        let Names { lock, fence } = self.layout.names(change.key)?;
        let mut writes = Vec::with_capacity(2);
        writes.extend(change.lock.as_ref().map(|change| match change {
            LockChange::Take { seen, record } => {
                document::put(document::of_lock(lock, record), seen.map(|seen| seen.version))
            }
            LockChange::Extend { seen, expires_at } => {
                document::put_expiry(lock, seen.version, *expires_at)
            }
            LockChange::Delete { seen } => document::delete(lock, seen.version),
        }));
        writes.extend(change.counter.map(|(seen, next)| {
            let counter = document::of_counter(fence, change.key, next);
            document::put(counter, seen.map(|seen| seen.version))
        }));
        let answer = self.client.commit(writes, attempt.call_deadline()).await?;
        let is_there =
            matches!(change.lock, Some(LockChange::Take { .. } | LockChange::Extend { .. }));
        let written = answer.write_results.into_iter().next().filter(|_| is_there);
        Ok(Written::Done(written.and_then(|lock| lock.update_time).map(Version::from)))
    }

    async fn list_locks(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> Result<Page<Record>, Fault> {
        let entry = |document| Ok(document::lock(document)?.record);
        self.list(self.layout.lock_parent(), KEY, request, attempt, entry).await
    }

    async fn list_counters(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> Result<Page<FenceCounter>, Fault> {
        let entry = |document: Document| {
            let key = key_of(&document, KEY_DEBUG).unwrap_or_default();
            FenceCounter::stored(key, document::counter(&document)?.last)
        };
        self.list(self.layout.fence_parent(), KEY_DEBUG, request, attempt, entry).await
    }

    async fn watch(&self, key: &Key) -> Option<KeyWatch> {
        self.signals.watch(&self.layout.lock_name(key).ok()?).await
    }
}
