//! The options of a backend.

use std::time::Duration;

#[cfg(feature = "tls")]
use syncguard_core::authoring::tls::TlsOptions;
use syncguard_core::authoring::{ClientOptions, checked_timeout};
use syncguard_core::{CredentialsProvider, LockError};

/// Options of a [`RedisBackend`](crate::RedisBackend). TypeScript: `RedisBackendOptions`.
///
/// A value out of range is an error when the backend is made.
///
/// ```
/// use std::time::Duration;
/// use syncguard_redis::RedisOptions;
///
/// let options = RedisOptions::new()
///     .with_key_prefix("{billing}")
///     .with_operation_timeout(Duration::from_millis(500));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisOptions {
    pub(crate) key_prefix: String,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) wait_replicas: u8,
    pub(crate) wait_replicas_timeout: Option<Duration>,
    pub(crate) strict_durability: bool,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) client: ClientOptions,
    pub(crate) credentials: Option<CredentialsProvider>,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsOptions,
}

impl RedisOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            key_prefix: "syncguard".to_owned(),
            command_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            connections: 1,
            wait_replicas: 0,
            wait_replicas_timeout: None,
            strict_durability: false,
            cleanup_in_is_locked: false,
            client: ClientOptions::default(),
            credentials: None,
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
        }
    }

    /// The start of all record names. Default: `syncguard`.
    ///
    /// A prefix has up to 951 bytes, does not contain `fence:` and does not end in `fence`. Trailing colons are
    /// dropped. On a cluster, a prefix without a hash tag [spreads the locks over all masters](crate::guide#cluster).
    ///
    /// **Never let one prefix be the beginning of another up to a colon**, such as `app` and `app:billing`
    /// on one server. The key `billing:7` under `app` and the key `7` under `app:billing` are one lock, but
    /// each prefix has its own fence counter for that lock, so fences do not grow from holder to holder. The
    /// backend cannot detect this, because the names are those of the TypeScript library. For the same reason, an
    /// empty prefix must be the only prefix on its server.
    ///
    /// With a prefix of 228 bytes or more, keys of exactly 22 base64url characters are refused, because hashed
    /// names of other records have that form.
    pub fn with_key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// The longest time for an operation, 1 ms to 100 years. Overrides the timeout of the client. Default: 2 s.
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// The longest time for [`connect`](crate::RedisBackend::connect), 1 ms to 100 years: to open all
    /// connections and to check the server's durability. Default: 5 s.
    ///
    /// A single connection may take as long as the [operation timeout](Self::with_operation_timeout), or one
    /// second if that is longer. For a slow server, raise both timeouts.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The number of connections that [`connect`](crate::RedisBackend::connect) opens, 1 to 64. Default: 1.
    ///
    /// Operations share a connection without waiting for each other. A second connection helps if the first
    /// keeps one core busy; more connections are slower.
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Lets an acquire or an extend succeed only after this many replicas have the lock. Default: 0, which is none.
    ///
    /// If too few replicas confirm in time, the lock is released and the acquire fails with `ServiceUnavailable`. Other
    /// operations on the same connection wait meanwhile.
    pub fn with_wait_replicas(mut self, count: u8) -> Self {
        self.wait_replicas = count;
        self
    }

    /// How long to wait for the [replicas](Self::with_wait_replicas), from 1 ms to half of the operation timeout. Default:
    /// 500 ms. It is refused without replicas to wait for.
    pub fn with_wait_replicas_timeout(mut self, timeout: Duration) -> Self {
        self.wait_replicas_timeout = Some(timeout);
        self
    }

    /// Refuses a server that can lose locks or take fences back, or that does not say in `INFO` whether it can: see
    /// [durability](crate::guide#durability). Default: off, which logs the risks.
    ///
    /// `appendfsync` is checked only if the server shows it to this user. Otherwise it counts as `everysec`, Redis' default:
    /// let an administrator run `syncguard doctor` once.
    pub fn with_strict_durability(mut self, strict: bool) -> Self {
        self.strict_durability = strict;
        self
    }

    /// Lets `is_locked` delete a lock that has been over for three seconds. Default: off.
    ///
    /// Redis deletes expired locks by itself, except for records without a TTL, which this library never writes.
    /// With this option, `is_locked` also writes. If the server refuses the write, `is_locked` ignores that and
    /// still answers.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    syncguard_core::client_options!(client);

    syncguard_core::credentials_option!(credentials);

    #[cfg(feature = "tls")]
    syncguard_core::tls_options!(tls);

    pub(crate) fn check(&self) -> Result<(), LockError> {
        checked_timeout("operation timeout", self.command_timeout)?;
        checked_timeout("connect timeout", self.connect_timeout)?;
        if !(1..=64).contains(&self.connections) {
            return Err(LockError::invalid_argument(format!(
                "{} connections are asked for; 1 to 64 are allowed",
                self.connections
            )));
        }
        match (self.wait(), self.wait_replicas_timeout) {
            (Some(wait), _) => wait.check(self.command_timeout),
            (None, None) => Ok(()),
            (None, Some(_)) => Err(LockError::invalid_argument(
                "there is a timeout for replicas, and none to wait for: wait_replicas",
            )),
        }
    }

    /// The replicas to wait for, if there are any.
    pub(crate) fn wait(&self) -> Option<WaitReplicas> {
        let timeout = self.wait_replicas_timeout.unwrap_or(Duration::from_millis(500));
        (self.wait_replicas > 0).then_some(WaitReplicas { count: self.wait_replicas, timeout })
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How many replicas must have a lock before it counts, and how long to wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitReplicas {
    /// At least 1.
    pub(crate) count: u8,
    pub(crate) timeout: Duration,
}

impl WaitReplicas {
    fn check(self, command_timeout: Duration) -> Result<(), LockError> {
        if self.timeout < Duration::from_millis(1) || self.timeout > command_timeout / 2 {
            return Err(LockError::invalid_argument(
                "the timeout for replicas is out of range; 1 ms to half of the operation timeout is allowed",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let options = RedisOptions::new;
        let millisecond = Duration::from_millis(1);
        let waiting = |timeout| options().with_wait_replicas(1).with_wait_replicas_timeout(timeout);
        for wrong in [
            options().with_operation_timeout(Duration::ZERO),
            options().with_connect_timeout(Duration::from_micros(999)),
            options().with_operation_timeout(Duration::MAX),
            options().with_connect_timeout(Duration::MAX),
            options().with_connections(0),
            options().with_connections(65),
            options().with_wait_replicas_timeout(millisecond),
            waiting(Duration::from_micros(999)),
            waiting(millisecond * 501).with_operation_timeout(millisecond * 1000),
            options().with_wait_replicas(1).with_operation_timeout(millisecond * 999),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        let right = options().with_wait_replicas(1).with_operation_timeout(millisecond * 1000);
        assert!(right.check().is_ok());
    }
}
