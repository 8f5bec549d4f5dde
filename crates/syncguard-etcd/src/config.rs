//! The options of a backend.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[cfg(feature = "tls")]
use syncguard_core::authoring::tls::TlsOptions;
use syncguard_core::authoring::{ClientOptions, Clock, checked_timeout};
use syncguard_core::{CredentialsProvider, LockError};

use crate::layout::Layout;

/// Options of an [`EtcdBackend`](crate::EtcdBackend).
///
/// The constructors of the backend report values that are out of range.
///
/// ```
/// use std::time::Duration;
/// use syncguard_etcd::EtcdOptions;
///
/// let options = EtcdOptions::new()
///     .with_key_prefix("/apps/locks")
///     .with_request_timeout(Duration::from_secs(1))
///     .with_strict_clock(true);
/// ```
#[derive(Clone)]
#[must_use]
pub struct EtcdOptions {
    /// Host and port of each member; from the URL.
    pub(crate) members: Vec<(String, u16)>,
    /// `http` or `https`, from the URL.
    pub(crate) scheme: &'static str,
    pub(crate) user: Option<(String, String)>,
    pub(crate) key_prefix: String,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) client: ClientOptions,
    pub(crate) credentials: Option<CredentialsProvider>,
    pub(crate) request_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) remembered_locks: usize,
    pub(crate) strict_clock: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsOptions,
    pub(crate) clock: Clock,
    /// False in tests that count requests.
    pub(crate) probes_clock: bool,
}

impl EtcdOptions {
    /// The default key prefix.
    pub const DEFAULT_KEY_PREFIX: &'static str = "syncguard";

    /// The default request timeout.
    const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

    /// The default operation timeout.
    const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default connect timeout.
    const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

    /// The default number of remembered locks.
    const DEFAULT_REMEMBERED_LOCKS: usize = 8192;

    /// Returns the default options.
    pub fn new() -> Self {
        Self {
            members: Vec::new(),
            scheme: "http",
            user: None,
            key_prefix: Self::DEFAULT_KEY_PREFIX.to_owned(),
            cleanup_in_is_locked: false,
            client: ClientOptions::default(),
            credentials: None,
            request_timeout: Self::DEFAULT_REQUEST_TIMEOUT,
            operation_timeout: Self::DEFAULT_OPERATION_TIMEOUT,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            remembered_locks: Self::DEFAULT_REMEMBERED_LOCKS,
            strict_clock: false,
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
            clock: Arc::new(SystemTime::now),
            probes_clock: true,
        }
    }

    /// Sets the prefix of the names of all records, 1 to 512 bytes without a slash at the end. Default: `syncguard`. A
    /// prefix must not be the beginning of another one up to a slash.
    ///
    /// A URL with a path sets it to the path.
    pub fn with_key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Sets the user and the password, for a cluster with users. A URL with a user replaces both. Default: none.
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    #[cfg(feature = "tls")]
    syncguard_core::tls_options!(tls);

    /// Lets `is_locked` delete a lock that expired more than three seconds ago, in the background.
    /// Default: no. It never deletes a fence counter, or a lock that was taken meanwhile.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    syncguard_core::client_options!(client);

    syncguard_core::credentials_option!(credentials);

    /// Sets the longest to wait for the answer to one call, 1 ms to 100 years. Default: 2 s. After this time without any
    /// answer the backend goes on to another member.
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets the longest that an operation may take, including all of its calls and retries; at least the
    /// request timeout. Default: 5 s, which is longer than an election.
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// Sets the longest that opening a connection may take, 1 ms to 100 years: one half for TCP, the other for TLS.
    /// Default: 2 s.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how many of its own locks, and of the keys that it has left free, the backend remembers. An entry saves a call.
    /// Default: 8192 of each; an entry takes some 700 bytes and twice its key. 0 turns it off.
    pub fn with_remembered_locks(mut self, locks: usize) -> Self {
        self.remembered_locks = locks;
        self
    }

    /// Sets whether the backend acquires nothing while a majority of the members tells no time, and takes no lock over while
    /// their time is known to within more than the tolerance. Default: no; then this machine's clock counts where the
    /// members tell no time, and the log has a warning.
    pub fn with_strict_clock(mut self, strict: bool) -> Self {
        self.strict_clock = strict;
        self
    }

    /// Replaces the system's clock, for tests.
    #[cfg(feature = "test-util")]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Never asks a member for its time, for tests that count or hold requests.
    #[cfg(feature = "test-util")]
    pub fn without_clock_probe(mut self) -> Self {
        self.probes_clock = false;
        self
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.scheme == "https"
    }

    /// Checks the options as far as possible without a connection, and returns the names of the records.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for values that are out of range, and for a bad prefix.
    pub(crate) fn check(&self) -> Result<Layout, LockError> {
        checked_timeout("request timeout", self.request_timeout)?;
        checked_timeout("operation timeout", self.operation_timeout)?;
        checked_timeout("connect timeout", self.connect_timeout)?;
        if self.operation_timeout < self.request_timeout {
            return Err(LockError::invalid_argument(
                "the operation timeout is below the request timeout; it bounds all requests together",
            ));
        }
        Layout::new(&self.key_prefix)
    }
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows neither the user nor the password.
impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EtcdOptions");
        #[cfg(feature = "tls")]
        shown.field("tls", &self.tls);
        shown
            .field("members", &self.members.len())
            .field("scheme", &self.scheme)
            .field("has_user", &self.user.is_some())
            .field("key_prefix", &self.key_prefix)
            .field("cleanup_in_is_locked", &self.cleanup_in_is_locked)
            .field("client", &self.client)
            .field("credentials", &self.credentials)
            .field("request_timeout", &self.request_timeout)
            .field("operation_timeout", &self.operation_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("remembered_locks", &self.remembered_locks)
            .field("strict_clock", &self.strict_clock)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let options = EtcdOptions::new;
        let second = Duration::from_secs(1);
        for wrong in [
            options().with_request_timeout(Duration::ZERO),
            options().with_operation_timeout(Duration::from_micros(999)),
            options().with_connect_timeout(Duration::ZERO),
            options().with_operation_timeout(Duration::MAX),
            options().with_request_timeout(2 * second).with_operation_timeout(second),
            options().with_key_prefix("a/"),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        assert!(options().check().is_ok());
        assert!(options().with_dispose_timeout(Duration::ZERO).client.client_state().is_err());
    }
}
