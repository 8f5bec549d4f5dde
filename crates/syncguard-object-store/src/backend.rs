//! The backend and its constructors.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ObjectStore;
use syncguard_core::authoring::conditional::Conditional;
use syncguard_core::authoring::{cancel, reported_health};
use syncguard_core::contract::SignalStatus;
use syncguard_core::diagnostics::{ClockDrift, Health};
use syncguard_core::{ErrorCode, Fence, LockBackend, LockError};
use tokio::sync::OnceCell;

use crate::client::Client;
use crate::clock::Ear;
use crate::conditions::{self, ConditionReport};
use crate::config::ObjectStoreOptions;
use crate::layout::Layout;
use crate::store::{Objects, RETRIES};
use crate::{connect, health, url};

/// Locks in a bucket.
///
/// A cheap handle: clones share the connections, the remembered locks and the store's time.
#[derive(Clone)]
pub struct ObjectStoreBackend(Conditional<Objects>);

/// The places that were found fit for locks by this process.
static FIT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

impl ObjectStoreBackend {
    /// Connects with the options of the URL, and defaults for the others.
    ///
    /// The URL is `s3://bucket/prefix?name=value&…` for Amazon S3 and stores that speak its protocol,
    /// `az://container/prefix` for Azure Blob Storage, or `gs://bucket/prefix` for Google Cloud Storage; each needs its feature.
    /// The prefix may be missing. Accounts, regions, addresses and credentials come from the environment variables of
    /// [`object_store`], such as `AWS_REGION`, `AWS_ENDPOINT_URL` and `AZURE_STORAGE_ACCOUNT_NAME`, and from the machine's role.
    /// Options have the names of the methods of [`ObjectStoreOptions`] that set them. Times are whole milliseconds, switches are
    /// `true` or `false`, and special characters are percent-encoded.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `endpoint` | the store's address; one with `http://` is in plain text | the cloud's |
    /// | `region` | the region, of `s3` | `us-east-1` |
    /// | `anonymous` | signs no requests | `false` |
    /// | `emulator` | `host:port` of Azurite, of `az`, with its public account | none |
    /// | `request_timeout_ms` | the longest to wait for the answer to one request | 5000 |
    /// | `operation_timeout_ms` | the longest an operation may take, with all its requests | 15000 |
    /// | `connect_timeout_ms` | the longest the opening of a connection may take | 5000 |
    /// | `remembered_locks` | for how many of its own locks the backend saves a request | 8192 |
    /// | `strict_clock` | takes no lock over while the store's time is not known to within a second | `false` |
    /// | `strict_conditions` | checks the store with races as well | `false` |
    /// | `cleanup_in_is_locked` | lets `is_locked` free expired locks | `false` |
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | the label of the holder, for people to read; empty is none | host name and process id |
    /// | `note` | a note beside the label | none |
    ///
    /// # Errors
    ///
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::connect_with(url, ObjectStoreOptions::new()).await
    }

    /// Connects with these options. The URL has the form that [`connect`](Self::connect) describes; its options win over
    /// these.
    ///
    /// The first connect of a process to a place checks by five small requests that the store heeds conditions. If the check
    /// gets no answer, the connect succeeds all the same, and the first acquire checks.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad URL, option or setting, for a store whose feature is not enabled, for a store that ignores
    /// conditions, and outside a tokio runtime. `AuthFailed` if the store refuses the credentials.
    ///
    /// # Cancel safety
    ///
    /// Safe. An object of the check may stay behind.
    pub async fn connect_with(url: &str, options: ObjectStoreOptions) -> Result<Self, LockError> {
        let options = url::parse(url, options)?;
        let layout = options.check()?;
        let place = format!(
            "{} {} {} {:?} {:?} {:?} {}",
            options.scheme,
            options.bucket,
            options.prefix,
            options.endpoint,
            options.emulator,
            options.region,
            options.strict_conditions
        );
        let backend = Self::over(layout, connect::open(&options)?, options)?;
        let fit = || FIT.lock().unwrap_or_else(PoisonError::into_inner);
        if fit().contains(&place) {
            let _ = backend.0.store().is_fit.set(());
            return Ok(backend);
        }
        let check = async { backend.0.store().check().await.map_err(|fault| fault.error) };
        match cancel::read(None, Box::pin(check)).await {
            Ok(()) => {
                fit().insert(place);
            }
            Err(error)
                if matches!(error.code(), ErrorCode::InvalidArgument | ErrorCode::AuthFailed) =>
            {
                return Err(error);
            }
            Err(error) => tracing::debug!(%error, "the store could not be checked yet"),
        }
        Ok(backend)
    }

    /// Makes a backend over a store of the program, with defaults. Sends nothing; the first acquire checks that the store heeds
    /// conditions.
    ///
    /// Turn the store's own retries off (`RetryConfig { max_retries: 0, .. }`): this library has its own, and a write that the
    /// driver sends twice is an unknown outcome more often.
    ///
    /// The `Date` of answers cannot be seen in such a store. So the backend learns the time from the last change of an object
    /// that it writes for this: two requests at the beginning, and up to eighteen a minute while it is used. Where that time is
    /// told in whole seconds, another holder's lock may be found over a second later.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use syncguard_object_store::object_store::memory::InMemory;
    /// use syncguard_object_store::{ObjectStoreBackend, lock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), syncguard_object_store::LockError> {
    /// let backend = ObjectStoreBackend::from_store(Arc::new(InMemory::new()), "locks")?;
    /// lock(&backend, "job:nightly", async |held| println!("under fence {}", held.fence())).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad prefix.
    pub fn from_store(
        store: Arc<dyn ObjectStore>,
        prefix: impl Into<String>,
    ) -> Result<Self, LockError> {
        Self::from_store_with(store, ObjectStoreOptions::new().with_prefix(prefix))
    }

    /// Makes a backend over a store of the program as [`from_store`](Self::from_store) does, with these options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad option.
    pub fn from_store_with(
        store: Arc<dyn ObjectStore>,
        options: ObjectStoreOptions,
    ) -> Result<Self, LockError> {
        Self::over(options.check()?, store, options)
    }

    /// Checks by some three hundred small requests below the prefix whether the store heeds the conditions of writes: also by
    /// tags that it never gave, and by races of 32. A store without a fault has given evidence, not proof: a race that goes wrong
    /// once in thousands is seldom seen.
    ///
    /// # Errors
    ///
    /// The failures of the requests.
    ///
    /// # Cancel safety
    ///
    /// Safe. An object of the check may stay behind.
    pub async fn check_conditions(&self) -> Result<ConditionReport, LockError> {
        self.conditions(true).await
    }

    async fn conditions(&self, is_thorough: bool) -> Result<ConditionReport, LockError> {
        let Objects { client, layout, request_timeout, .. } = self.0.store();
        let check = async {
            let check = conditions::check(client, layout, is_thorough, *request_timeout);
            check.await.map_err(|fault| fault.error)
        };
        cancel::read(None, Box::pin(check)).await
    }

    /// Returns how far this machine's clock is ahead of the store's, by the answers so far; `None` before the first one. For
    /// people and health checks: locks go by the store's time.
    #[must_use]
    pub fn clock_drift(&self) -> Option<ClockDrift> {
        self.0.store().client.ear.clock.drift()
    }

    fn over(
        layout: Layout,
        store: Arc<dyn ObjectStore>,
        options: ObjectStoreOptions,
    ) -> Result<Self, LockError> {
        let ear = Ear::new(Arc::clone(&options.common.clock), options.probes);
        let (time, timeout) = (layout.time(), options.common.request_timeout);
        let objects = Objects {
            client: Arc::new(Client::new(store, ear, time, timeout, options.probes)),
            layout,
            is_fit: if options.probes { OnceCell::new() } else { OnceCell::new_with(Some(())) },
            is_thorough: options.strict_conditions,
            request_timeout: timeout,
        };
        Ok(Self(Conditional::new(objects, options.common, RETRIES)?))
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for ObjectStoreBackend {
    type Fence = Fence;

    syncguard_core::forward!(0: acquire, release, extend, is_locked, lookup);
    syncguard_core::forward!(0: watch, inventory, capabilities, client_state);

    async fn health(&self) -> Health {
        let report = async {
            match self.conditions(false).await {
                Err(error) if error.code() == ErrorCode::AuthFailed => Ok(Err(error)),
                report => report.map(Ok),
            }
        };
        let describe = |health: &mut Health, report| {
            health::describe(health, report, self.clock_drift());
        };
        reported_health(self, || SignalStatus::Unused, report, describe).await
    }
}

impl fmt::Debug for ObjectStoreBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStoreBackend")
            .field("prefix", &self.0.store().layout.prefix())
            .field("clock_drift", &self.clock_drift())
            .finish()
    }
}
