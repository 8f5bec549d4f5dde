//! The state that all operations of a backend share.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::Attempts;
use syncguard_core::authoring::signals::SignalHub;
use syncguard_core::shared::ClientState;
use syncguard_core::{Fence, LockError, LockId, Timestamp};

use crate::client::{Client, Login};
use crate::clock::{self, Clock};
use crate::clock_probe::ClockProbe;
use crate::config::EtcdOptions;
use crate::error::{Fault, Rpc};
use crate::layout::Layout;
use crate::members::Members;
use crate::memory::Memory;
use crate::record::{self, Held, Record};
use crate::retry::{self, Attempt};
use crate::signals;
use crate::txn::{self, Version};
use crate::wire::{KeyValue, TxnRequest, TxnResponse};

/// The client, the names of the records, the memory, and the options.
pub(crate) struct Inner {
    pub(crate) client: Arc<Client>,
    pub(crate) layout: Layout,
    pub(crate) memory: Memory,
    pub(crate) probe: Arc<ClockProbe>,
    pub(crate) cleans_up: bool,
    clock: Arc<Clock>,
    strict_clock: bool,
    probes_clock: bool,
    pub(crate) request_timeout: Duration,
    operation_timeout: Duration,
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
    pub(crate) fn new(
        members: Members,
        layout: Layout,
        options: EtcdOptions,
    ) -> Result<Self, LockError> {
        let members = Arc::new(members);
        let client_state = options.client.client_state()?;
        let login = options.user.map(|(name, password)| Login::new(name, password));
        let client = Arc::new(Client::new(Arc::clone(&members), login));
        let (clock, timeout) = (options.clock, options.request_timeout);
        Ok(Self {
            signals: signals::hub(Arc::clone(&client), timeout),
            probe: Arc::new(ClockProbe::new(members, Arc::clone(&clock), timeout)),
            client,
            layout,
            memory: Memory::new(options.remembered_locks),
            cleans_up: options.cleanup_in_is_locked,
            clock,
            strict_clock: options.strict_clock,
            probes_clock: options.probes_clock,
            request_timeout: timeout,
            operation_timeout: options.operation_timeout,
            client_state,
        })
    }

    pub(crate) fn now(&self) -> Result<Timestamp, LockError> {
        clock::timestamp(&*self.clock)
    }

    /// # Errors
    ///
    /// `ServiceUnavailable` in strict mode, if this machine's clock is too far off.
    pub(crate) fn check_clock(&self) -> Result<(), LockError> {
        if self.strict_clock { self.probe.gauge().check() } else { Ok(()) }
    }

    /// Measures the clock before and during acquires. `must_know` is true for an acquire that asks for the server's time.
    pub(crate) async fn measure_clock(&self, must_know: bool) {
        if !self.probes_clock {
            return;
        }
        if must_know || self.strict_clock {
            self.probe.know().await;
        }
        self.probe.keep_fresh();
    }

    pub(crate) fn attempts(&self) -> Attempts<impl FnMut(&Fault) -> bool + Send + use<>> {
        retry::attempts(self.request_timeout, self.operation_timeout)
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

    /// Reads the counter with this name.
    pub(crate) async fn counter(
        &self,
        name: &str,
        attempt: &Attempt,
    ) -> Result<Option<Fence>, Fault> {
        let [counter] = self.read([name], attempt).await?;
        Ok(record::counter(name, counter.as_ref())?)
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

    /// Remembers a lock that was written at this revision.
    pub(crate) fn remember(&self, record: Record, value: Vec<u8>, revision: i64) {
        self.memory.remember(Held { record, version: Version { revision, value } });
    }

    /// Takes a remembered lock out of the memory; `None` if the lock has expired by it.
    pub(crate) fn known_live(&self, lock_id: LockId) -> Result<Option<Held>, LockError> {
        let now = self.now()?;
        Ok(self.memory.locks.take(&lock_id).filter(|held| held.is_live(now)))
    }
}
