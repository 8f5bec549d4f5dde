//! The records of a key: how they are read, found and changed.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::RetryPauses;
use syncguard_core::authoring::conditional::{
    Change, ConditionalStore, Counter, Found, LockChange, Parts, Record, Seen, StoredLock, Written,
};
use syncguard_core::authoring::signals::SignalHub;
use syncguard_core::authoring::{Attempt, Fault, Retries, StoreClock, StoreTime, corrupt_record};
use syncguard_core::contract::KeyWatch;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Jitter, Key, LockError, LockId, NotHeld};
use tokio::time::Instant;

use crate::client::Client;
use crate::clock_probe::ClockProbe;
use crate::config::EtcdOptions;
use crate::error::{self, Rpc};
use crate::layout::Layout;
use crate::members::Members;
use crate::txn::{self, Txn, Version};
use crate::wire::{KeyValue, RangeRequest, TxnRequest, TxnResponse};
use crate::{record, signals};

/// Only the holder of a lock changes it, so conflicts are rare: an extend and a release at once. An election takes one to two
/// seconds.
pub(crate) const RETRIES: Retries = Retries {
    conflicts: 16,
    failures: u32::MAX,
    silences: u32::MAX,
    pauses: RetryPauses {
        first: Duration::from_millis(5),
        longest: Duration::from_millis(200),
        jitter: Jitter::Full,
    },
};

/// The cluster, and the names of the records.
pub(crate) struct Etcd {
    pub(crate) client: Arc<Client>,
    pub(crate) layout: Layout,
    pub(crate) probe: Arc<ClockProbe>,
    pub(crate) signals: SignalHub,
}

impl Etcd {
    pub(crate) fn new(members: Members, options: &mut EtcdOptions) -> Result<Self, LockError> {
        let (layout, members) = (options.check()?, Arc::new(members));
        let client = Arc::new(Client::new(Arc::clone(&members), options));
        let (timeout, is_on) = (options.common.request_timeout, options.probes_clock);
        let sources = if is_on { members.count() } else { 0 };
        let clock = StoreClock::of(sources, Arc::clone(&options.common.clock));
        Ok(Self {
            signals: signals::hub(Arc::clone(&client), timeout),
            probe: Arc::new(ClockProbe::new(members, clock, timeout, is_on)),
            client,
            layout,
        })
    }

    /// Learns the time in the background, so that the log says soon after the connect that the members tell none.
    pub(crate) fn learn_time(&self, request_timeout: Duration) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (probe, client) = (Arc::downgrade(&self.probe), Arc::downgrade(&self.client));
        runtime.spawn(async move {
            for _ in 0..=ClockProbe::UNTOLD {
                let (Some(probe), Some(client)) = (probe.upgrade(), client.upgrade()) else {
                    return;
                };
                if probe.time().await.is_ok() {
                    return;
                }
                // An answer to a call shows that the members can be reached, and tell no time.
                let deadline = Instant::now() + request_timeout;
                if client.txn(Rpc::Read, &TxnRequest::default(), deadline).await.is_err() {
                    return;
                }
            }
        });
    }

    pub(crate) async fn txn(
        &self,
        rpc: Rpc,
        txn: &TxnRequest,
        attempt: &Attempt,
    ) -> Result<TxnResponse, Fault> {
        self.client.txn(rpc, txn, attempt.call_deadline()).await
    }

    fn names(&self, key: &Key, parts: Parts<'_>) -> Vec<String> {
        let mut names = Vec::with_capacity(3);
        names.extend(parts.have_lock().then(|| self.layout.lock(key.expose())));
        names.extend(parts.have_counter().then(|| self.layout.counter(key.expose())));
        if let Parts::Acquire { lock_id, .. } = parts {
            names.push(self.layout.index(lock_id));
        }
        names
    }

    /// Reads the records with the [`names`](Self::names) of these parts.
    fn seen(
        &self,
        key: &Key,
        parts: Parts<'_>,
        answer: TxnResponse,
    ) -> Result<Seen<Version>, LockError> {
        let mut records = txn::records(answer);
        let mut next = |is_there: bool| {
            if is_there { records.next().ok_or_else(txn::missing) } else { Ok(None) }
        };
        let lock = next(parts.have_lock())?.map(|lock| self.lock(key, lock)).transpose();
        let counter = next(parts.have_counter())?;
        let is_id_in_use = match parts {
            Parts::Acquire { lock_id, .. } => {
                // The lock of the same request, which has expired, is no reason to refuse its lock id.
                let is_ours = |lock: &StoredLock<_>| lock.record.lock_id == lock_id;
                next(true)?.is_some()
                    && !lock.as_ref().is_ok_and(|it| it.as_ref().is_some_and(is_ours))
            }
            _ => false,
        };
        let name = self.layout.counter(key.expose());
        let counter = counter.map(|stored| {
            let last = record::counter(&name, &stored)?;
            Ok(Counter { last, version: Version::of(stored) })
        });
        Ok(Seen { lock, counter: counter.transpose(), is_id_in_use })
    }

    fn lock(&self, key: &Key, stored: KeyValue) -> Result<StoredLock<Version>, LockError> {
        record::lock(&self.layout.lock(key.expose()), key.expose(), stored)
    }

    /// The transaction of a change, and the new value of the lock.
    fn transaction(&self, change: &Change<'_, Version>) -> Result<(Txn, Vec<u8>), LockError> {
        let (key, name) = (change.key.expose(), self.layout.lock(change.key.expose()));
        let (mut txn, mut value) = (Txn::default(), Vec::new());
        if let Some((seen, next)) = change.counter {
            txn = txn.count(&self.layout.counter(key), seen.map(|seen| seen.last), next);
        }
        match &change.lock {
            None => {}
            Some(LockChange::Take { seen, record }) => {
                value = record::value(record)?;
                let index = self.layout.index(record.lock_id);
                txn = txn
                    .if_version(&name, seen.map(|seen| &seen.version))
                    .put(&name, value.clone())
                    .put(&index, key.into());
                let before = seen.map(|seen| seen.record.lock_id);
                if before != Some(record.lock_id) {
                    txn = txn.if_absent(&index);
                    if let Some(before) = before {
                        txn = txn.delete(&self.layout.index(before));
                    }
                }
            }
            Some(LockChange::Extend { seen, expires_at }) => {
                value = record::with_expiry(&seen.version.value, *expires_at)?;
                txn = txn.if_version(&name, Some(&seen.version)).put(&name, value.clone());
            }
            Some(LockChange::Delete { seen }) => {
                let index = self.layout.index(seen.record.lock_id);
                txn = txn.if_version(&name, Some(&seen.version)).delete(&name).delete(&index);
            }
        }
        Ok((txn, value))
    }

    /// Reads a page of locks or of counters: one range of names, which are in the order of the keys. `name` makes their names
    /// of keys, or of the beginnings of keys.
    async fn list<T>(
        &self,
        name: fn(&Layout, &str) -> String,
        request: &ListRequest,
        attempt: &Attempt,
        entry: fn(&str, &str, KeyValue) -> Result<T, LockError>,
    ) -> Result<Page<T>, Fault> {
        let layout = &self.layout;
        let first = || name(layout, request.expose_start()).into_bytes();
        let mut wanted = RangeRequest {
            // A stranger's name may be no text, so the place is kept as bytes.
            key: request.kept::<Vec<u8>>().map_or_else(first, |from| from.to_vec()),
            range_end: name(layout, &request.expose_end()).into_bytes(),
            limit: i64::try_from(request.page_size()).unwrap_or(i64::MAX),
            ..RangeRequest::default()
        };
        let found = loop {
            match self.txn(Rpc::Read, &txn::read_range(wanted.clone()), attempt).await {
                // Half of the page, and in the end the name of one record, which is corrupt without its value.
                Err(fault) if error::is_too_large(&fault) && !wanted.keys_only => {
                    wanted.keys_only = wanted.limit == 1;
                    wanted.limit = (wanted.limit / 2).max(1);
                }
                answer => break txn::range(answer?)?,
            }
        };
        let next = found.kvs.last().filter(|_| found.more).map(|last| {
            let behind = [&*last.key, &[0]].concat();
            request.behind(String::from_utf8_lossy(&last.key)).keeping(Arc::new(behind))
        });
        let mut page = Page::new(next);
        for stored in found.kvs {
            let name = String::from_utf8_lossy(&stored.key).into_owned();
            let key = layout.key_in(&stored.key).unwrap_or_default().to_owned();
            page.push(&name, entry(&name, &key, stored));
        }
        Ok(page)
    }
}

impl ConditionalStore for Etcd {
    const NAME: &'static str = "etcd";
    const WRITES_EACH: bool = true;
    type Version = Version;

    async fn time(&self) -> Result<StoreTime, Fault> {
        self.probe.time().await
    }

    async fn strict_time(&self, takes_over: bool) -> Result<StoreTime, Fault> {
        self.probe.strict_time(takes_over).await
    }

    fn may_acquire(&self) -> Result<(), LockError> {
        self.client.members.check()
    }

    async fn read(
        &self,
        key: &Key,
        parts: Parts<'_>,
        attempt: &Attempt,
    ) -> Result<Seen<Version>, Fault> {
        // The transaction of an acquire compares the index entry.
        let parts = if matches!(parts, Parts::Acquire { .. }) { Parts::Both } else { parts };
        let read = txn::read(&self.names(key, parts));
        Ok(self.seen(key, parts, self.txn(Rpc::Read, &read, attempt).await?)?)
    }

    /// One read of the hinted key and the index entry, and one more if the lock has another key.
    async fn find(
        &self,
        lock_id: LockId,
        hint: Option<&Key>,
        attempt: &Attempt,
    ) -> Result<Found<Version>, Fault> {
        let index = self.layout.index(lock_id);
        let hinted = hint.map(|hint| self.layout.lock(hint.expose()));
        let names: Vec<_> = hinted.iter().chain([&index]).collect();
        let answer = self.txn(Rpc::Read, &txn::read(&names), attempt).await?;
        let mut records = txn::records(answer);
        let mut next = || records.next().ok_or_else(txn::missing);
        if let Some(hint) = hint {
            let lock = next()?.and_then(|lock| self.lock(hint, lock).ok());
            if lock.as_ref().is_some_and(|lock| lock.record.lock_id == lock_id) {
                return Ok(self.judge(lock, lock_id).await?.into());
            }
        }
        let Some(entry) = next()? else { return Ok(Err(NotHeld::NotFound).into()) };
        let key = String::from_utf8(entry.value).ok().and_then(|key| Key::new(key).ok());
        let key = key.ok_or_else(|| corrupt_record(&index, "the index entry is not a key"))?;
        let lock = self.read(&key, Parts::Lock, attempt).await?.lock?;
        Ok(self.judge(lock, lock_id).await?.into())
    }

    /// If a condition does not hold, the transaction reads the records that it would have written.
    async fn write(
        &self,
        change: &Change<'_, Version>,
        attempt: &Attempt,
    ) -> Result<Written<Version>, Fault> {
        let (txn, value) = self.transaction(change)?;
        let txn = txn.or_read(&self.names(change.key, change.parts()));
        let answer = self.txn(Rpc::Write, &txn, attempt).await?;
        if answer.succeeded {
            return Ok(Written::Done(Some(Version { revision: txn::revision(&answer)?, value })));
        }
        Ok(Written::Refused(self.seen(change.key, change.parts(), answer)?))
    }

    async fn write_each(
        &self,
        changes: &[Change<'_, Version>],
        attempt: &Attempt,
    ) -> Result<Vec<Option<Version>>, Fault> {
        let each = changes.iter().map(|change| self.transaction(change));
        let (txns, values): (Vec<_>, Vec<_>) =
            each.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let answer = self.txn(Rpc::Write, &Txn::each(txns), attempt).await?;
        let revision = txn::revision(&answer)?;
        let done = txn::carried_out(answer).zip(values);
        Ok(done.map(|(is_done, value)| is_done.then_some(Version { revision, value })).collect())
    }

    async fn list_locks(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> Result<Page<Record>, Fault> {
        let entry = |name: &str, key: &str, stored| Ok(record::lock(name, key, stored)?.record);
        self.list(Layout::lock, request, attempt, entry).await
    }

    async fn list_counters(
        &self,
        request: &ListRequest,
        attempt: &Attempt,
    ) -> Result<Page<FenceCounter>, Fault> {
        let entry = |name: &str, key: &str, stored: KeyValue| {
            FenceCounter::stored(key, record::counter(name, &stored)?)
        };
        self.list(Layout::counter, request, attempt, entry).await
    }

    async fn watch(&self, key: &Key) -> Option<KeyWatch> {
        self.signals.watch(&self.layout.lock(key.expose())).await
    }
}
