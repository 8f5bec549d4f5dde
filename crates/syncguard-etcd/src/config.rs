//! The options of a backend.

use std::fmt;
use std::time::Duration;

use syncguard_core::authoring::conditional::ConditionalOptions;
#[cfg(feature = "tls")]
use syncguard_core::authoring::tls::TlsOptions;
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
    pub(crate) common: ConditionalOptions,
    pub(crate) credentials: Option<CredentialsProvider>,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsOptions,
    /// False in tests that count requests.
    pub(crate) probes_clock: bool,
}

impl EtcdOptions {
    /// The default key prefix.
    pub const DEFAULT_KEY_PREFIX: &'static str = "syncguard";

    /// Returns the default options.
    pub fn new() -> Self {
        Self {
            members: Vec::new(),
            scheme: "http",
            user: None,
            key_prefix: Self::DEFAULT_KEY_PREFIX.to_owned(),
            common: ConditionalOptions::new(
                Duration::from_secs(2),
                Duration::from_secs(5),
                Duration::from_secs(2),
            ),
            credentials: None,
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
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

    syncguard_core::conditional_options!(
        common:
        request_timeout = "Default: 2 s. After this time without any answer the backend goes on to another member.",
        operation_timeout = "Default: 5 s, which is longer than an election.",
        connect_timeout = "Default: 2 s. One half is for TCP, the other for TLS.",
        remembered_locks = "It remembers as many of the keys that it has left free. An entry takes some 700 bytes and twice its key.",
        strict_clock = "Then this machine's clock counts where a majority of the members tells no time, and the log has a warning.",
    );

    syncguard_core::credentials_option!(credentials);

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
        self.common.check()?;
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
            .field("common", &self.common)
            .field("credentials", &self.credentials)
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
        assert!(
            options().with_dispose_timeout(Duration::ZERO).common.client.client_state().is_err()
        );
    }
}
