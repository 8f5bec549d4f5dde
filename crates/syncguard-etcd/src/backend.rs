//! The backend and its constructors.

use std::fmt;
use std::sync::Arc;

use syncguard_core::authoring::conditional::Conditional;
use syncguard_core::authoring::{cancel, reported_health};
use syncguard_core::contract::SignalStatus;
use syncguard_core::diagnostics::{ClockDrift, Health};
use syncguard_core::{ErrorCode, Fence, LockBackend, LockError};

use crate::config::EtcdOptions;
use crate::connect::Connector;
use crate::members::Members;
use crate::report::{self, ClusterReport};
use crate::store::{Etcd, RETRIES};
use crate::{health, url};

/// Locks in an etcd cluster.
///
/// A cheap handle: clones share the connection, the remembered locks and the store's time.
#[derive(Clone)]
pub struct EtcdBackend(pub(crate) Conditional<Etcd>);

impl EtcdBackend {
    /// Connects with the options of the URL, and defaults for the others.
    ///
    /// The URL is `etcd://user:password@host1:2379,host2,host3/prefix?name=value&…`, with `etcds` for TLS. It should name
    /// all members: the backend goes on to the next one when a member fails. User, password, ports and prefix may be
    /// missing. Options have the names of the methods of [`EtcdOptions`] that set them. Times are whole milliseconds,
    /// switches are `true` or `false`, and special characters are percent-encoded.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `request_timeout_ms` | the longest to wait for the answer to one call | 2000 |
    /// | `operation_timeout_ms` | the longest an operation may take, with all its calls | 5000 |
    /// | `connect_timeout_ms` | the longest the opening of a connection may take | 2000 |
    /// | `remembered_locks` | for how many of its own locks the backend saves a call | 8192 |
    /// | `strict_clock` | takes no lock while the store's time is not known | `false` |
    /// | `cleanup_in_is_locked` | lets `is_locked` delete expired locks | `false` |
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | the label of the holder, for people to read; empty is none | host name and process id |
    /// | `note` | a note beside the label | none |
    /// | `sslrootcert` | for `etcds`, a PEM file of the authorities to trust, or `system` | the system's |
    /// | `sslcert` | for `etcds`, a PEM file of a [client certificate](EtcdOptions::with_client_certificate) | none |
    /// | `sslkey` | a PEM file of its key, which others must not be able to read | none |
    ///
    /// A URL cannot set [`with_on_release_error`](EtcdOptions::with_on_release_error) and
    /// [`with_credentials`](EtcdOptions::with_credentials), which are code.
    ///
    /// # Errors
    ///
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::connect_with(url, EtcdOptions::new()).await
    }

    /// Connects with these options. The URL has the form that [`connect`](Self::connect) describes; its options win over
    /// these.
    ///
    /// Waits for no server. In the background it asks the members for their time, and the log has a warning if they tell
    /// none. The first operation opens the connection, and later ones reopen it if it is lost. The tasks of the connection
    /// belong to the runtime of this call. When that runtime has ended, the next operation begins anew in its own runtime.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad URL or option, for certificates that cannot be used, for `etcds` without the feature
    /// `tls`, and outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    #[expect(clippy::unused_async, reason = "as on the other stores, whose connect may wait")]
    pub async fn connect_with(url: &str, options: EtcdOptions) -> Result<Self, LockError> {
        let options = url::parse(url, options)?;
        Self::over(Members::new(Arc::new(Connector::new(&options)?))?, options)
    }

    /// Returns how far this machine's clock is ahead of the members', by the answers so far; `None` before a majority has
    /// told its time over HTTP. For people and health checks: locks go by the members' time.
    #[must_use]
    pub fn clock_drift(&self) -> Option<ClockDrift> {
        self.0.store().probe.clock.drift()
    }

    /// Returns whether waiters hear of releases. Use it for health checks.
    #[must_use]
    pub fn signals(&self) -> SignalStatus {
        self.0.store().signals.status()
    }

    /// Asks the cluster about its state, and measures the clock, which takes some seconds. Use it for health checks.
    ///
    /// # Errors
    ///
    /// `AuthFailed` if the user may not ask; else the failures of an operation.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn report(&self) -> Result<ClusterReport, LockError> {
        cancel::read(None, Box::pin(report::report(&self.0))).await
    }

    pub(crate) fn over(members: Members, mut options: EtcdOptions) -> Result<Self, LockError> {
        let etcd = Etcd::new(members, &mut options)?;
        etcd.learn_time(options.common.request_timeout);
        Ok(Self(Conditional::new(etcd, options.common, RETRIES)?))
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for EtcdBackend {
    type Fence = Fence;

    syncguard_core::forward!(0: acquire, release, extend, is_locked, lookup);
    syncguard_core::forward!(0: watch, inventory, capabilities, client_state);

    async fn health(&self) -> Health {
        let report = async {
            match self.report().await {
                Err(error) if error.code() == ErrorCode::AuthFailed => Ok(Err(error)),
                report => report.map(Ok),
            }
        };
        reported_health(self, || self.signals(), report, health::describe).await
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdBackend")
            .field("key_prefix", &self.0.store().layout.prefix())
            .field("clock_drift", &self.clock_drift())
            .finish()
    }
}
