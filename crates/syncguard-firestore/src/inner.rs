//! The state that all operations of a backend share.

use std::sync::Arc;
use std::time::Duration;

use gcloud_sdk::google::firestore::v1::{CommitResponse, Write};
use syncguard_core::authoring::Attempts;
use syncguard_core::authoring::signals::SignalHub;
use syncguard_core::contract::is_live;
use syncguard_core::shared::ClientState;
use syncguard_core::{LockError, LockId, Timestamp};

use crate::cache::{Cache, Known};
use crate::channel::Channel;
use crate::client::Client;
use crate::clock::{self, Clock};
use crate::config::FirestoreOptions;
use crate::document::{Counter, Version};
use crate::error::Fault;
use crate::names::Layout;
use crate::retry::{self, Attempt};
use crate::signals;

/// The client, the names of the documents, the remembered locks, and the options.
pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) layout: Layout,
    pub(crate) cache: Cache,
    pub(crate) cleans_up: bool,
    clock: Arc<Clock>,
    strict_clock: bool,
    conflict_retries: u32,
    request_timeout: Duration,
    operation_timeout: Duration,
    pub(crate) client_state: ClientState,
    pub(crate) signals: SignalHub,
}

impl Inner {
    pub(crate) fn new(
        channel: Arc<Channel>,
        layout: Layout,
        options: FirestoreOptions,
    ) -> Result<Self, LockError> {
        let client_state = options.client.client_state()?;
        let database = layout.database().to_owned();
        let clock = Arc::clone(&options.clock);
        let signals = signals::hub(Arc::clone(&channel), database, clock, options.request_timeout);
        Ok(Self {
            client: Client::new(channel, Arc::clone(&options.clock)),
            layout,
            cache: Cache::new(options.remembered_locks),
            cleans_up: options.cleanup_in_is_locked,
            clock: options.clock,
            strict_clock: options.strict_clock,
            conflict_retries: options.conflict_retries,
            request_timeout: options.request_timeout,
            operation_timeout: options.operation_timeout,
            client_state,
            signals,
        })
    }

    pub(crate) fn now(&self) -> Result<Timestamp, LockError> {
        clock::timestamp(&*self.clock)
    }

    /// Returns the earliest time that Firestore's clock can show now, by the responses so far.
    pub(crate) fn earliest_server_time(&self) -> Result<Timestamp, LockError> {
        self.client.gauge().earliest_server_time(self.now()?)
    }

    /// # Errors
    ///
    /// `ServiceUnavailable` in strict mode, if this machine's clock is too far off.
    pub(crate) fn check_clock(&self) -> Result<(), LockError> {
        if self.strict_clock { self.client.gauge().check() } else { Ok(()) }
    }

    pub(crate) fn attempts(&self) -> Attempts<impl FnMut(&Fault) -> bool + Send + use<>> {
        retry::attempts(self.conflict_retries, self.request_timeout, self.operation_timeout)
    }

    pub(crate) async fn commit(
        &self,
        writes: Vec<Write>,
        attempt: &Attempt,
    ) -> Result<CommitResponse, Fault> {
        self.client.commit(&self.layout, writes, attempt.call_deadline()).await
    }

    /// Reads the counter with this name.
    pub(crate) async fn counter(
        &self,
        name: &str,
        attempt: &Attempt,
    ) -> Result<Option<Counter>, Fault> {
        let [counter] = self.client.read(&self.layout, [name], attempt.call_deadline()).await?;
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

    /// Remembers the document of a lock, which is the first write of this commit.
    pub(crate) fn remember(
        &self,
        lock_id: LockId,
        name: String,
        answer: CommitResponse,
        expires_at: Timestamp,
    ) {
        let written = answer.write_results.into_iter().next();
        if let Some(updated) = written.and_then(|written| written.update_time) {
            let version = Version { name, updated };
            self.cache.remember(lock_id, Known { version, expires_at });
        }
    }

    /// Takes the remembered document of a lock out of the cache; `None` if the lock has expired by it.
    pub(crate) fn known_live(&self, lock_id: LockId) -> Result<Option<Known>, LockError> {
        let now = self.now()?;
        let known = self.cache.take(lock_id);
        Ok(known.filter(|known| is_live(known.expires_at, now)))
    }
}
