//! The backend and its constructors.

use std::fmt;
use std::sync::Arc;

use gcloud_sdk::GoogleAuthMiddleware;
use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard_core::authoring::conditional::Conditional;
use syncguard_core::authoring::{Retries, basic_health};
use syncguard_core::contract::SignalStatus;
use syncguard_core::diagnostics::{ClockDrift, Health};
use syncguard_core::{Fence, LockBackend, LockError};

use crate::config::FirestoreOptions;
use crate::connect::ClientMaker;
use crate::service::{Maker, Service};
use crate::store::{Firestore, RETRIES};
use crate::url;

/// Locks in two collections of a Cloud Firestore database. TypeScript: `createFirestoreBackend`.
///
/// A cheap handle: clones share the connection, the remembered locks and the store's time.
#[derive(Clone)]
pub struct FirestoreBackend(Conditional<Firestore>);

impl FirestoreBackend {
    /// Connects with the options of the URL, and defaults for the others.
    ///
    /// The URL is `firestore://project/database?name=value&…`, or `firestore://project` for the database
    /// `(default)`. Options have the names of the methods of [`FirestoreOptions`] that set them. Times are
    /// whole milliseconds, switches are `true` or `false`, and special characters are percent-encoded.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `collection` | the collection of the locks | `locks` |
    /// | `fence_collection` | the collection of the fence counters | `fence_counters` |
    /// | `request_timeout_ms` | the longest to wait for the answer to one call | 5000 |
    /// | `operation_timeout_ms` | the longest an operation may take, with all its calls | 10000 |
    /// | `connect_timeout_ms` | the longest the opening of a connection may take | 5000 |
    /// | `conflict_retries` | how often an operation starts over because another client was faster | 24 |
    /// | `remembered_locks` | for how many of its own locks the backend saves a call | 8192 |
    /// | `strict_clock` | takes no lock while the store's time is not known | `false` |
    /// | `cleanup_in_is_locked` | lets `is_locked` delete expired locks | `false` |
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | the label of the holder, for people to read; empty is none | host name and process id |
    /// | `note` | a note beside the label | none |
    /// | `emulator` | `host:port` of an emulator, in plain text and without credentials | `FIRESTORE_EMULATOR_HOST` |
    /// | `remote_emulator` | lets the emulator be on another machine | `false` |
    ///
    /// A URL cannot set [`with_on_release_error`](FirestoreOptions::with_on_release_error), which is code,
    /// or credentials: the backend uses Google's application default credentials.
    ///
    /// # Errors
    ///
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::connect_with(url, FirestoreOptions::new()).await
    }

    /// Connects with these options, to the service with the application default credentials or to an emulator. The URL
    /// has the form that [`connect`](Self::connect) describes; its options win over these.
    ///
    /// Sends nothing and waits for no server: the first operation opens the connection, and later ones
    /// reopen it if it is lost. The tasks of the connection and of the credentials belong to the runtime of this call.
    /// When that runtime has ended, the next operation begins anew in its own runtime.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad URL or option, equal or illegal collection names, an emulator
    ///   whose address is not `host:port`, or an emulator on another machine that
    ///   [`with_remote_emulator`](FirestoreOptions::with_remote_emulator) does not allow.
    /// - `AuthFailed` if there are no usable credentials.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn connect_with(url: &str, options: FirestoreOptions) -> Result<Self, LockError> {
        let options = url::parse(url, options)?;
        let maker = ClientMaker::new(&options.check()?, &options)?;
        Self::over(maker.make().await?, Some(Box::new(maker)), options)
    }

    /// Makes a backend over a client of the program, for example from `GoogleApi::get` of gcloud-sdk. Sends nothing.
    ///
    /// The options name the database: [`with_project`](FirestoreOptions::with_project),
    /// [`with_database`](FirestoreOptions::with_database). The options for emulators have no effect here.
    /// Make the client with the resource prefix `projects/…/databases/…` of the same database. The client's
    /// own timeouts do not matter, except that gcloud-sdk waits for a connection for 30 s by default.
    ///
    /// The backend cannot replace the client. Let the client send pings, so that it notices a silent connection before
    /// locks expire, and make it in a runtime that lives as long as the backend: after that every operation is an
    /// `InvalidArgument`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad option, a missing project, or equal or illegal collection names.
    pub fn from_client(
        client: FirestoreClient<GoogleAuthMiddleware>,
        options: FirestoreOptions,
    ) -> Result<Self, LockError> {
        Self::over(Arc::new(client), None, options)
    }

    /// Returns how far this machine's clock is ahead of the server's, by the responses so far; `None` before the first one. For
    /// people and health checks: locks go by the server's time, except in the TypeScript library.
    #[must_use]
    pub fn clock_drift(&self) -> Option<ClockDrift> {
        self.0.store().client.clock.drift()
    }

    /// Returns whether waiters hear of releases. Use it for health checks.
    #[must_use]
    pub fn signals(&self) -> SignalStatus {
        self.0.store().signals.status()
    }

    pub(crate) fn over(
        service: Arc<dyn Service>,
        maker: Option<Box<dyn Maker>>,
        options: FirestoreOptions,
    ) -> Result<Self, LockError> {
        let firestore = Firestore::new(service, maker, &options)?;
        let retries = Retries { conflicts: options.conflict_retries, ..RETRIES };
        Ok(Self(Conditional::new(firestore, options.common, retries)?))
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for FirestoreBackend {
    type Fence = Fence;

    syncguard_core::forward!(0: acquire, release, extend, is_locked, lookup);
    syncguard_core::forward!(0: watch, inventory, capabilities, client_state);

    async fn health(&self) -> Health {
        let mut health = basic_health(self, |_| self.signals()).await;
        if health.reachability.is_ok() {
            // Each answer carries the server's time, and the first one includes the time to connect.
            for _ in 0..2 {
                health = basic_health(self, |_| self.signals()).await;
            }
        }
        health.set_clock(self.clock_drift(), "Firestore");
        health
    }
}

impl fmt::Debug for FirestoreBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirestoreBackend")
            .field("database", &self.0.store().layout.database())
            .field("collection", &self.0.store().layout.lock_collection())
            .field("fence_collection", &self.0.store().layout.fence_collection())
            .field("clock_drift", &self.clock_drift())
            .finish()
    }
}
