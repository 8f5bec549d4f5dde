//! How a backend is set up.

use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::{ClientOptions, checked_timeout};

/// Options of a [`RedisBackend`](crate::RedisBackend). TypeScript: `RedisBackendOptions`.
///
/// What is out of range is reported when the backend is made.
///
/// ```
/// use std::time::Duration;
/// use syncguard_redis::RedisOptions;
///
/// let options = RedisOptions::new()
///     .with_key_prefix("{billing}")
///     .with_command_timeout(Duration::from_millis(500));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisOptions {
    pub(crate) key_prefix: String,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) wait_replicas: Option<WaitReplicas>,
    pub(crate) strict_durability: bool,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) client: ClientOptions,
    /// In DER; the system's if there are none.
    #[cfg(feature = "tls")]
    pub(crate) root_certificates: Vec<Vec<u8>>,
}

impl RedisOptions {
    /// The prefix unless another is set, as in the TypeScript library.
    pub const DEFAULT_KEY_PREFIX: &'static str = "syncguard";

    /// The command timeout unless another is set.
    pub const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

    /// The connect timeout unless another is set.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The defaults.
    pub fn new() -> Self {
        Self {
            key_prefix: Self::DEFAULT_KEY_PREFIX.to_owned(),
            command_timeout: Self::DEFAULT_COMMAND_TIMEOUT,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            connections: 1,
            wait_replicas: None,
            strict_durability: false,
            cleanup_in_is_locked: false,
            client: ClientOptions::default(),
            #[cfg(feature = "tls")]
            root_certificates: Vec::new(),
        }
    }

    /// What the names of all records start with. Default: `syncguard`.
    ///
    /// Trailing colons are dropped. Up to 951 bytes; neither `fence:` within it nor `fence` at its
    /// end. On a cluster, one without a hash tag [spreads the locks over all masters](crate#cluster).
    ///
    /// **Never let one prefix be the beginning of another up to a colon**, such as `app` and `app:billing`
    /// on one server. The key `billing:7` under `app` and the key `7` under `app:billing` are one lock, but
    /// each prefix has a fence counter of its own for it, so fences do not grow from holder to holder. Nothing
    /// can find that out: the names are those of the TypeScript library. For the same reason an empty prefix
    /// goes with no other one.
    ///
    /// From 228 bytes on, keys of exactly 22 base64url characters are refused, because names of other
    /// records are hashed and look like that.
    pub fn with_key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// The longest an operation may take, 1 ms to 100 years, whatever the client is set to. Default: 2 s.
    pub fn with_command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// The longest [`connect`](crate::RedisBackend::connect) may take in all, 1 ms to 100 years: opening
    /// all connections, and looking at the server's durability. Default: 5 s.
    ///
    /// A single connection may take as long as the [command timeout](Self::with_command_timeout), and
    /// at least a second, so raise both for a server that is slow to answer.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How many connections [`connect`](crate::RedisBackend::connect) opens, 1 to 64. Default: 1.
    ///
    /// Operations share a connection without waiting for each other. A second one helps where one
    /// core is busy with the first; more make it slower.
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Lets an acquire or an extend succeed only once this many replicas have it. Default: none.
    pub fn with_wait_replicas(mut self, wait: WaitReplicas) -> Self {
        self.wait_replicas = Some(wait);
        self
    }

    /// Refuses a server that cannot keep fences growing and locks alive, or that does not say
    /// whether it can: see [`DurabilityReport`](crate::DurabilityReport). Default: off, which logs.
    pub fn with_strict_durability(mut self, strict: bool) -> Self {
        self.strict_durability = strict;
        self
    }

    /// Lets `is_locked` clear away a lock that has been over for three seconds. Default: off.
    ///
    /// Redis does that by itself; only records without a TTL, which this library never writes, stay.
    /// With it on, `is_locked` also writes. Where it may not, it still answers: a clearing that fails is
    /// ignored.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    syncguard_core::client_options!(client);

    /// Trusts this authority's certificate (X.509 in DER), and others given the same way, instead of
    /// the system's. For `rediss://` URLs; a client of the program's own has its own TLS.
    ///
    /// One that cannot be read is an `InvalidArgument` when the backend is made. In a URL it is
    /// `sslrootcert`, the path of a PEM file, which replaces all that are given here.
    #[cfg(feature = "tls")]
    pub fn with_root_certificate(mut self, der: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(der.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        checked_timeout("command timeout", self.command_timeout)?;
        checked_timeout("connect timeout", self.connect_timeout)?;
        if !(1..=64).contains(&self.connections) {
            return Err(LockError::invalid_argument(format!(
                "{} connections are asked for; 1 to 64 are allowed",
                self.connections
            )));
        }
        self.wait_replicas.map_or(Ok(()), |wait| wait.check(self.command_timeout))
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How many replicas must have a lock before it counts, and how long to wait for them.
///
/// On a shortfall the lock is released and the acquire fails with `ServiceUnavailable`. The commands
/// of other operations on the same connection wait meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitReplicas {
    /// How many replicas, at least 1.
    pub count: u8,
    /// How long to wait, from 1 ms to half of the command timeout.
    pub timeout: Duration,
}

impl WaitReplicas {
    /// This many replicas, within 500 ms.
    #[must_use]
    pub const fn new(count: u8) -> Self {
        Self { count, timeout: Duration::from_millis(500) }
    }

    /// Waits this long, from 1 ms to half of the command timeout.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn check(self, command_timeout: Duration) -> Result<(), LockError> {
        if self.count == 0 {
            return Err(LockError::invalid_argument(
                "no replica to wait for; 1 or more are allowed",
            ));
        }
        if self.timeout < Duration::from_millis(1) || self.timeout > command_timeout / 2 {
            return Err(LockError::invalid_argument(
                "the timeout for replicas is out of range; 1 ms to half of the command timeout is allowed",
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
        let wait = WaitReplicas::new(1);
        for wrong in [
            options().with_command_timeout(Duration::ZERO),
            options().with_connect_timeout(Duration::from_micros(999)),
            options().with_command_timeout(Duration::MAX),
            options().with_connect_timeout(Duration::MAX),
            options().with_connections(0),
            options().with_connections(65),
            options().with_wait_replicas(WaitReplicas::new(0)),
            options().with_wait_replicas(wait.with_timeout(Duration::ZERO)),
            options().with_wait_replicas(wait).with_command_timeout(millisecond * 999),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        let right = options().with_wait_replicas(wait).with_command_timeout(millisecond * 1000);
        assert!(right.check().is_ok());
    }
}
