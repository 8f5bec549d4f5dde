//! The options of a backend.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "test-util")]
use std::time::SystemTime;

use syncguard_core::LockError;
use syncguard_core::authoring::conditional::ConditionalOptions;

use crate::names::{DEFAULT_DATABASE, Layout};

/// Options of a [`FirestoreBackend`](crate::FirestoreBackend). TypeScript: `FirestoreBackendOptions`.
///
/// The constructors of the backend report values that are out of range.
///
/// ```
/// use std::time::Duration;
/// use syncguard_firestore::FirestoreOptions;
///
/// let options = FirestoreOptions::new()
///     .with_collection("app_locks")
///     .with_fence_collection("app_fence_counters")
///     .with_request_timeout(Duration::from_secs(2))
///     .with_strict_clock(true);
/// ```
#[derive(Clone)]
#[must_use]
pub struct FirestoreOptions {
    pub(crate) project: Option<String>,
    pub(crate) database: String,
    pub(crate) collection: String,
    pub(crate) fence_collection: String,
    pub(crate) common: ConditionalOptions,
    pub(crate) conflict_retries: u32,
    /// None in tests that set the store's time.
    pub(crate) clocks: usize,
    pub(crate) emulator: Option<String>,
    pub(crate) remote_emulator: bool,
    /// `None`: the system's.
    pub(crate) name_server: Option<Arc<NameServer>>,
}

/// Knows the addresses of a name.
pub(crate) type NameServer = dyn Fn(&str) -> Vec<IpAddr> + Send + Sync;

impl FirestoreOptions {
    /// The default number of retries after conflicts.
    pub(crate) const DEFAULT_CONFLICT_RETRIES: u32 = 24;

    /// Returns the default options.
    pub fn new() -> Self {
        Self {
            project: None,
            database: DEFAULT_DATABASE.to_owned(),
            collection: "locks".to_owned(),
            fence_collection: "fence_counters".to_owned(),
            common: ConditionalOptions::new(
                Duration::from_secs(5),
                Duration::from_secs(10),
                Duration::from_secs(5),
            ),
            conflict_retries: Self::DEFAULT_CONFLICT_RETRIES,
            clocks: 1,
            emulator: None,
            remote_emulator: false,
            name_server: None,
        }
    }

    /// Sets the project, for [`from_client`](crate::FirestoreBackend::from_client); a URL names its project.
    pub fn with_project(mut self, project: impl Into<String>) -> Self {
        self.project = Some(project.into());
        self
    }

    /// Sets the database of the project. Default: `(default)`.
    pub fn with_database(mut self, database: impl Into<String>) -> Self {
        self.database = database.into();
        self
    }

    /// Sets the collection of the locks: a name, or the path of a nested collection such as
    /// `tenants/acme/locks`. Default: `locks`.
    pub fn with_collection(mut self, collection: impl Into<String>) -> Self {
        self.collection = collection.into();
        self
    }

    /// Sets the collection of the fence counters: a name or path like that of the locks, but a different
    /// collection. Default: `fence_counters`.
    pub fn with_fence_collection(mut self, collection: impl Into<String>) -> Self {
        self.fence_collection = collection.into();
        self
    }

    syncguard_core::conditional_options!(
        common:
        request_timeout = "Default: 5 s. The time includes an access token.",
        operation_timeout = "Default: 10 s.",
        connect_timeout = "Default: 5 s. The addresses of the host share one half of it, and the other half is for TLS. Each opening begins with another address, so that a silent one does not keep the backend from the others.",
        remembered_locks = "Each takes some 400 bytes and its key.",
        strict_clock = "Each answer tells the server's time, so both are rare.",
    );

    /// Sets how often an operation starts over because another client wrote the same documents between
    /// its read and its write, after pauses that grow to 400 ms. Default: 24. After these retries, or after
    /// the operation timeout, the operation fails with `ServiceUnavailable`. An acquire that lost the lock to
    /// rivals answers `Locked` instead, after losing four times at the latest.
    pub fn with_conflict_retries(mut self, retries: u32) -> Self {
        self.conflict_retries = retries;
        self
    }

    /// Replaces the store's time, for tests.
    #[cfg(feature = "test-util")]
    pub fn with_store_clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clocks: 0, ..self.with_clock(clock) }
    }

    /// Replaces the system's name server, for tests.
    #[cfg(feature = "test-util")]
    pub fn with_name_server(
        mut self,
        name_server: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.name_server = Some(Arc::new(name_server));
        self
    }

    /// Connects to an emulator on this `host:port`, in plain text and without credentials. Default:
    /// the value of the environment variable `FIRESTORE_EMULATOR_HOST`, if it is set.
    ///
    /// The address is a host name or an IP address, IPv6 in square brackets, and a port from 1 to 65535:
    /// `localhost:8080`, `[::1]:8080`. The constructors of the backend refuse anything else.
    pub fn with_emulator(mut self, host_port: impl Into<String>) -> Self {
        self.emulator = Some(host_port.into());
        self
    }

    /// Allows an emulator on another machine or in another container. Default: no, because a forgotten
    /// environment variable could otherwise send production traffic to any host, in plain text.
    pub fn with_remote_emulator(mut self, allowed: bool) -> Self {
        self.remote_emulator = allowed;
        self
    }

    /// Checks the options as far as possible without a connection, and returns the names of the collections.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for values that are out of range, and for bad names.
    pub(crate) fn check(&self) -> Result<Layout, LockError> {
        self.common.check()?;
        let project = self.project.as_deref().ok_or_else(|| {
            LockError::invalid_argument("no project is set; set it by with_project")
        })?;
        Layout::new(project, &self.database, &self.collection, &self.fence_collection)
    }
}

impl Default for FirestoreOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FirestoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirestoreOptions")
            .field("project", &self.project)
            .field("database", &self.database)
            .field("collection", &self.collection)
            .field("fence_collection", &self.fence_collection)
            .field("common", &self.common)
            .field("conflict_retries", &self.conflict_retries)
            .field("emulator", &self.emulator)
            .field("remote_emulator", &self.remote_emulator)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let options = || FirestoreOptions::new().with_project("p");
        let second = Duration::from_secs(1);
        for wrong in [
            options().with_request_timeout(Duration::ZERO),
            options().with_operation_timeout(Duration::from_micros(999)),
            options().with_connect_timeout(Duration::ZERO),
            options().with_operation_timeout(Duration::MAX),
            options().with_request_timeout(2 * second).with_operation_timeout(second),
            FirestoreOptions::new(),
            options().with_project("a/b"),
            options().with_database("a b"),
            options().with_collection("a/b"),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        assert!(options().check().is_ok());
        assert!(
            options().with_dispose_timeout(Duration::ZERO).common.client.client_state().is_err()
        );
    }
}
