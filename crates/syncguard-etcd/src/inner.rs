//! The state that all operations of a backend share.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::cancel::ExtendBatches;
use syncguard_core::authoring::pause::RetryPauses;
use syncguard_core::authoring::signals::SignalHub;
use syncguard_core::authoring::{Attempt, Attempts, Fault, Recent, Retries, StoreClock, StoreTime};
use syncguard_core::shared::ClientState;
use syncguard_core::{Fence, Jitter, Key, LockError, LockId};

use crate::client::Client;
use crate::clock_probe::ClockProbe;
use crate::config::EtcdOptions;
use crate::error::Rpc;
use crate::layout::Layout;
use crate::members::Members;
use crate::record::{self, Held, Record};
use crate::signals;
use crate::txn::{self, Change, Version};
use crate::wire::{KeyValue, TxnRequest, TxnResponse};

/// Only the holder of a lock changes it, so conflicts are rare: an extend and a release at once. An election takes one to two
/// seconds.
const RETRIES: Retries = Retries {
    conflicts: 16,
    failures: u32::MAX,
    silences: u32::MAX,
    pauses: RetryPauses {
        first: Duration::from_millis(5),
        longest: Duration::from_millis(200),
        jitter: Jitter::Full,
    },
};

/// The client, the names of the records, the memory, and the options.
///
/// An entry of the memory that is gone costs a read, and an outdated one costs a failed condition. Neither gives a wrong
/// answer, because every write states the version that it is based on.
pub(crate) struct Inner {
    pub(crate) client: Arc<Client>,
    pub(crate) layout: Layout,
    /// The locks that this backend has taken or extended, as it wrote them last.
    pub(crate) locks: Recent<LockId, Held>,
    /// The keys that this backend released last, and their counters. An acquire takes the entry out: the key of a lock is
    /// never in here, since a condition that fails is a write for etcd.
    pub(crate) free: Recent<Key, Fence>,
    pub(crate) probe: Arc<ClockProbe>,
    pub(crate) extends: ExtendBatches,
    pub(crate) options: EtcdOptions,
    pub(crate) client_state: ClientState,
    pub(crate) signals: SignalHub,
}

/// The answer to a change.
pub(crate) enum Changed<const N: usize> {
    /// It was carried out at this revision.
    Done(i64),
    /// A condition did not hold; these are the records now.
    Refused([Option<KeyValue>; N]),
}

impl Inner {
    pub(crate) fn new(members: Members, mut options: EtcdOptions) -> Result<Self, LockError> {
        let (layout, members) = (options.check()?, Arc::new(members));
        let client = Arc::new(Client::new(Arc::clone(&members), &mut options));
        let (timeout, is_on) = (options.request_timeout, options.probes_clock);
        let sources = if is_on { members.count() } else { 0 };
        let clock = StoreClock::of(sources, Arc::clone(&options.clock));
        Ok(Self {
            signals: signals::hub(Arc::clone(&client), options.request_timeout),
            probe: Arc::new(ClockProbe::new(members, clock, timeout, is_on)),
            client,
            layout,
            extends: ExtendBatches::default(),
            locks: Recent::new(options.remembered_locks),
            free: Recent::new(options.remembered_locks),
            client_state: std::mem::take(&mut options.client).client_state()?,
            options,
        })
    }

    /// The store's time.
    pub(crate) async fn time(&self) -> Result<StoreTime, Fault> {
        self.probe.time().await
    }

    /// Learns the time in the background, so that the log says soon after the connect that the members tell none.
    pub(crate) fn learn_time(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let inner = Arc::downgrade(self);
        runtime.spawn(async move {
            for _ in 0..=ClockProbe::UNTOLD {
                let Some(inner) = inner.upgrade() else { return };
                let attempt = inner.attempts().attempt();
                // An answer to a call shows that the members can be reached, and tell no time.
                let asking = async || inner.txn(Rpc::Read, &TxnRequest::default(), &attempt).await;
                if inner.time().await.is_ok() || asking().await.is_err() {
                    return;
                }
            }
        });
    }

    pub(crate) fn attempts(&self) -> Attempts {
        Attempts::new(RETRIES, self.options.request_timeout, self.options.operation_timeout)
    }

    /// Reads these records as one step.
    pub(crate) async fn read<const N: usize>(
        &self,
        names: [&str; N],
        attempt: &Attempt,
    ) -> Result<[Option<KeyValue>; N], Fault> {
        let answer = self.txn(Rpc::Read, &txn::read(&names), attempt).await?;
        Ok(txn::records(answer)?)
    }

    /// Reads the lock of a key, which may have expired.
    pub(crate) async fn lock(&self, key: &Key, attempt: &Attempt) -> Result<Option<Held>, Fault> {
        let name = self.layout.lock(key.expose());
        let [lock] = self.read([&name], attempt).await?;
        Ok(lock.map(|lock| Held::read(&name, key.expose(), lock)).transpose()?)
    }

    /// Reads the counter with this name.
    pub(crate) async fn counter(
        &self,
        name: &str,
        attempt: &Attempt,
    ) -> Result<Option<Fence>, Fault> {
        let [counter] = self.read([name], attempt).await?;
        Ok(record::counter(name, counter.as_ref())?)
    }

    /// Moves a counter, if it is as it was seen.
    pub(crate) async fn count(
        &self,
        name: &str,
        seen: Option<Fence>,
        next: Fence,
        attempt: &Attempt,
    ) -> Result<(), Fault> {
        let change = Change::default().count(name, seen, next).or_read(&[]);
        match self.change(change, attempt).await? {
            Changed::Done(_) => Ok(()),
            Changed::Refused([]) => Err(Fault::conflict()),
        }
    }

    /// Carries out a change, or reads the records that it names if a condition does not hold.
    pub(crate) async fn change<const N: usize>(
        &self,
        change: TxnRequest,
        attempt: &Attempt,
    ) -> Result<Changed<N>, Fault> {
        let answer = self.txn(Rpc::Write, &change, attempt).await?;
        if answer.succeeded {
            return Ok(Changed::Done(txn::revision(&answer)?));
        }
        Ok(Changed::Refused(txn::records(answer)?))
    }

    pub(crate) async fn txn(
        &self,
        rpc: Rpc,
        txn: &TxnRequest,
        attempt: &Attempt,
    ) -> Result<TxnResponse, Fault> {
        self.client.txn(rpc, txn, attempt.call_deadline()).await
    }

    /// Carries out a change in the background. It may fail.
    pub(crate) fn in_background(self: &Arc<Self>, change: TxnRequest) {
        let inner = Arc::clone(self);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let attempt = inner.attempts().attempt();
                if let Err(fault) = inner.txn(Rpc::Write, &change, &attempt).await {
                    tracing::debug!(error = %fault.error, "an expired lock was not deleted");
                }
            });
        }
    }

    /// Remembers a lock, unless a later version of it is remembered: the answers to two extends at once may arrive in the
    /// other order.
    pub(crate) fn remember(&self, record: Record, version: Version) {
        let (lock_id, revision) = (record.lock_id, version.revision);
        let held = Held { record, version };
        self.locks.put_unless(lock_id, held, |before| before.version.revision > revision);
    }

    /// Takes a remembered lock out of the memory; `None` if the lock has expired by it.
    pub(crate) async fn known_live(&self, lock_id: LockId) -> Result<Option<Held>, Fault> {
        let Some(held) = self.locks.take(&lock_id) else { return Ok(None) };
        let now = self.time().await?.earliest;
        Ok(Some(held).filter(|held| held.record.is_live(now)))
    }
}
