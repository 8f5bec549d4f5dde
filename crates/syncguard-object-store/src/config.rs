//! The options of a backend.

use std::fmt;
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::conditional::ConditionalOptions;

use crate::layout::Layout;

/// Options of an [`ObjectStoreBackend`](crate::ObjectStoreBackend).
///
/// The constructors of the backend report values that are out of range.
///
/// ```
/// use std::time::Duration;
/// use syncguard_object_store::ObjectStoreOptions;
///
/// let options = ObjectStoreOptions::new()
///     .with_prefix("apps/locks")
///     .with_request_timeout(Duration::from_secs(3))
///     .with_strict_conditions(true);
/// ```
#[derive(Clone)]
#[must_use]
pub struct ObjectStoreOptions {
    /// The bucket or container, and the scheme; from the URL.
    pub(crate) bucket: String,
    pub(crate) scheme: &'static str,
    pub(crate) prefix: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) emulator: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) is_anonymous: bool,
    pub(crate) strict_conditions: bool,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) common: ConditionalOptions,
    /// False in tests that count requests.
    pub(crate) probes: bool,
}

impl ObjectStoreOptions {
    /// The default prefix.
    pub const DEFAULT_PREFIX: &'static str = "syncguard";

    const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
    const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(15);
    const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Returns the default options.
    pub fn new() -> Self {
        Self {
            bucket: String::new(),
            scheme: "",
            prefix: Self::DEFAULT_PREFIX.to_owned(),
            endpoint: None,
            emulator: None,
            region: None,
            is_anonymous: false,
            strict_conditions: false,
            settings: Vec::new(),
            common: ConditionalOptions::new(
                Self::DEFAULT_REQUEST_TIMEOUT,
                Self::DEFAULT_OPERATION_TIMEOUT,
                Self::DEFAULT_CONNECT_TIMEOUT,
            ),
            probes: true,
        }
    }

    /// Sets the prefix of the names of all objects: 1 to 300 letters, digits, `-`, `_`, `.` and `=`, with single slashes
    /// between them. Default: `syncguard`. No other program may write below it.
    ///
    /// A URL with a path sets it to the path.
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets whether the backend checks the store with races as well before its first lock: some three hundred requests instead
    /// of five. Default: no. See [`check_conditions`](crate::ObjectStoreBackend::check_conditions).
    pub fn with_strict_conditions(mut self, strict: bool) -> Self {
        self.strict_conditions = strict;
        self
    }

    /// Sets a key of the configuration of `object_store`, as `aws_access_key_id` or `azure_storage_account_name`; it wins over the
    /// environment variable of that name. For `connect` only, which refuses keys that the store does not have.
    pub fn with_setting(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    syncguard_core::conditional_options!(
        common:
        request_timeout = "Default: 5 s.",
        operation_timeout = "Default: 15 s.",
        connect_timeout = "Default: 5 s. A store that the program made itself has its own.",
        remembered_locks = "It remembers as many of the keys that it has left free. An entry takes some 800 bytes and three times its key.",
        strict_clock = "A store that tells no time at all gives out no locks in any case.",
    );

    /// Sends no requests but those of the operations, neither for the time nor to check the store, and goes by this machine's clock.
    /// For tests that count or hold requests.
    #[cfg(feature = "test-util")]
    pub fn without_probes(mut self) -> Self {
        self.probes = false;
        self
    }

    /// Checks the options as far as possible without a connection, and returns the names of the objects.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for values that are out of range, and for a bad prefix.
    pub(crate) fn check(&self) -> Result<Layout, LockError> {
        self.common.check()?;
        Layout::new(&self.prefix)
    }
}

impl Default for ObjectStoreOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows no settings, which may be credentials.
impl fmt::Debug for ObjectStoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStoreOptions")
            .field("scheme", &self.scheme)
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("has_endpoint", &self.endpoint.is_some())
            .field("has_emulator", &self.emulator.is_some())
            .field("region", &self.region)
            .field("is_anonymous", &self.is_anonymous)
            .field("strict_conditions", &self.strict_conditions)
            .field("settings", &self.settings.len())
            .field("common", &self.common)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let options = ObjectStoreOptions::new;
        let second = Duration::from_secs(1);
        for wrong in [
            options().with_request_timeout(Duration::ZERO),
            options().with_connect_timeout(Duration::ZERO),
            options().with_operation_timeout(Duration::MAX),
            options().with_request_timeout(2 * second).with_operation_timeout(second),
            options().with_prefix("a/"),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        let right = options().with_setting("aws_secret_access_key", "hunter2");
        assert!(right.check().is_ok() && !format!("{right:?}").contains("hunter2"));
    }
}
