//! The state that all operations of a backend share.

use std::sync::Arc;
use std::time::Duration;

use gcloud_sdk::google::firestore::v1::{CommitResponse, Document, Write};
use syncguard_core::authoring::pause::RetryPauses;
use syncguard_core::authoring::signals::SignalHub;
use syncguard_core::authoring::{Attempt, Attempts, Fault, Recent, Retries, StoreClock, StoreTime};
use syncguard_core::contract::is_live;
use syncguard_core::shared::ClientState;
use syncguard_core::{Jitter, Key, LockError, LockId, Timestamp};

use crate::client::Client;
use crate::config::FirestoreOptions;
use crate::document::{Counter, Record, Version};
use crate::names::Layout;
use crate::service::{Maker, Service};
use crate::signals;

/// The calls after a broken call may still fail with the end of the same connection: on a busy machine, the second to the
/// fifth call did.
const RETRIES: Retries = Retries {
    conflicts: 0,
    failures: 6,
    silences: 0,
    pauses: RetryPauses {
        first: Duration::from_millis(5),
        longest: Duration::from_millis(400),
        jitter: Jitter::Full,
    },
};

/// The client, the names of the documents, the remembered locks, and the options.
pub(crate) struct Inner {
    pub(crate) client: Arc<Client>,
    pub(crate) layout: Layout,
    pub(crate) known: Recent<LockId, Known>,
    pub(crate) options: FirestoreOptions,
    pub(crate) client_state: ClientState,
    pub(crate) signals: SignalHub,
}

/// The document of a lock as this backend wrote it last, and the expiry it has if no other client has written it since.
///
/// An evicted lock costs a query, and an outdated entry costs a failed commit before the query. Neither gives a wrong
/// answer, because every write states the version it is based on. A version does not come back: Firestore's commit times
/// only grow, even over deletion and creation.
pub(crate) struct Known {
    pub(crate) version: Version,
    pub(crate) expires_at: Timestamp,
}

impl Inner {
    pub(crate) fn new(
        service: Arc<dyn Service>,
        maker: Option<Box<dyn Maker>>,
        mut options: FirestoreOptions,
    ) -> Result<Self, LockError> {
        let layout = options.check()?;
        let clock = StoreClock::of(options.clocks, Arc::clone(&options.clock));
        let client = Arc::new(Client::new(service, maker, clock, layout.database()));
        Ok(Self {
            signals: signals::hub(Arc::clone(&client), options.request_timeout),
            client,
            layout,
            known: Recent::new(options.remembered_locks),
            client_state: std::mem::take(&mut options.client).client_state()?,
            options,
        })
    }

    /// The server's time, by all answers so far. An operation reads before it decides, so there is one.
    pub(crate) fn time(&self) -> Result<StoreTime, LockError> {
        self.client.clock.now()
    }

    pub(crate) fn attempts(&self) -> Attempts {
        let retries = Retries { conflicts: self.options.conflict_retries, ..RETRIES };
        Attempts::new(retries, self.options.request_timeout, self.options.operation_timeout)
    }

    /// Reads these documents, all at the same time.
    pub(crate) async fn read<const N: usize>(
        &self,
        names: [&str; N],
        attempt: &Attempt,
    ) -> Result<[Option<Document>; N], Fault> {
        self.client.read(names, attempt.call_deadline()).await
    }

    pub(crate) async fn commit(
        &self,
        writes: Vec<Write>,
        attempt: &Attempt,
    ) -> Result<CommitResponse, Fault> {
        self.client.commit(writes, attempt.call_deadline()).await
    }

    /// Reads the lock of a key, which may have expired.
    pub(crate) async fn lock(&self, key: &Key, attempt: &Attempt) -> Result<Option<Record>, Fault> {
        let [lock] = self.read([&*self.layout.lock_name(key)?], attempt).await?;
        Ok(lock.map(Record::read).transpose()?)
    }

    /// Reads the counter with this name.
    pub(crate) async fn counter(
        &self,
        name: &str,
        attempt: &Attempt,
    ) -> Result<Option<Counter>, Fault> {
        let [counter] = self.read([name], attempt).await?;
        Ok(counter.map(Counter::read).transpose()?)
    }

    /// Commits in the background. The commit may fail.
    pub(crate) fn in_background(self: &Arc<Self>, writes: Vec<Write>) {
        let inner = Arc::clone(self);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(fault) = inner.commit(writes, &inner.attempts().attempt()).await {
                    tracing::debug!(error = %fault.error, "an expired lock was not deleted");
                }
            });
        }
    }

    /// Remembers the document of a lock, unless a later version of it is remembered: the answers to two extends at once may
    /// arrive in the other order.
    pub(crate) fn remember(&self, lock_id: LockId, version: &Version, expires_at: Timestamp) {
        let known = Known { version: version.clone(), expires_at };
        self.known.put_unless(lock_id, known, |before| before.version.is_later_than(version));
    }

    /// Remembers the document of a lock, which is the first write of this commit.
    pub(crate) fn remember_written(
        &self,
        lock_id: LockId,
        name: String,
        answer: CommitResponse,
        expires_at: Timestamp,
    ) {
        let written = answer.write_results.into_iter().next();
        if let Some(updated) = written.and_then(|written| written.update_time) {
            self.remember(lock_id, &Version { name, updated }, expires_at);
        }
    }

    /// Takes the remembered document of a lock out of the memory; `None` if the lock has expired by it.
    pub(crate) fn known_live(&self, lock_id: LockId) -> Result<Option<Known>, LockError> {
        let now = self.time()?.earliest;
        Ok(self.known.take(&lock_id).filter(|known| is_live(known.expires_at, now)))
    }
}
