//! The options that every backend on a store with conditions has, and the methods that set them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::authoring::backend_url::{BackendUrl, set};
use crate::authoring::client_options::ClientOptions;
use crate::authoring::store_clock::Clock;
use crate::util::checked_timeout;
use crate::value::LockError;

/// The part of a backend's options that every backend over [`Conditional`](super::Conditional) has.
/// [`conditional_options`](crate::conditional_options) writes the methods that set it.
#[derive(Clone)]
#[allow(clippy::exhaustive_structs, reason = "a part of its user")]
pub struct ConditionalOptions {
    /// The options of all backends.
    pub client: ClientOptions,
    /// The longest to wait for the answer to one call.
    pub request_timeout: Duration,
    /// The longest that an operation may take.
    pub operation_timeout: Duration,
    /// The longest that opening a connection may take.
    pub connect_timeout: Duration,
    /// How many locks the backend remembers.
    pub remembered_locks: usize,
    /// Whether the backend takes no lock while the store's time is not known.
    pub strict_clock: bool,
    /// Whether `is_locked` deletes expired locks.
    pub cleanup_in_is_locked: bool,
    /// The clock of this machine.
    pub clock: Clock,
}

impl ConditionalOptions {
    /// How many locks a backend remembers by default.
    const REMEMBERED_LOCKS: usize = 8192;

    /// Options with these timeouts: of a request, of an operation, of a connection.
    #[must_use]
    pub fn new(request: Duration, operation: Duration, connect: Duration) -> Self {
        Self {
            client: ClientOptions::default(),
            request_timeout: request,
            operation_timeout: operation,
            connect_timeout: connect,
            remembered_locks: Self::REMEMBERED_LOCKS,
            strict_clock: false,
            cleanup_in_is_locked: false,
            clock: Arc::new(SystemTime::now),
        }
    }

    /// Takes over the parameters of a URL that have the names of these options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad value.
    pub fn read_url(&mut self, url: &BackendUrl<'_>) -> Result<(), LockError> {
        set(&mut self.request_timeout, url.millis("request_timeout_ms")?);
        set(&mut self.operation_timeout, url.millis("operation_timeout_ms")?);
        set(&mut self.connect_timeout, url.millis("connect_timeout_ms")?);
        set(&mut self.remembered_locks, url.number("remembered_locks", 0..=10_000_000)?);
        set(&mut self.strict_clock, url.flag("strict_clock")?);
        set(&mut self.cleanup_in_is_locked, url.flag("cleanup_in_is_locked")?);
        self.client.read_url(url)
    }

    /// Checks the timeouts.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for values that are out of range.
    pub fn check(&self) -> Result<(), LockError> {
        checked_timeout("request timeout", self.request_timeout)?;
        checked_timeout("operation timeout", self.operation_timeout)?;
        checked_timeout("connect timeout", self.connect_timeout)?;
        if self.operation_timeout < self.request_timeout {
            return Err(LockError::invalid_argument(
                "the operation timeout is below the request timeout; it bounds all requests together",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for ConditionalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConditionalOptions")
            .field("client", &self.client)
            .field("request_timeout", &self.request_timeout)
            .field("operation_timeout", &self.operation_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("remembered_locks", &self.remembered_locks)
            .field("strict_clock", &self.strict_clock)
            .field("cleanup_in_is_locked", &self.cleanup_in_is_locked)
            .finish_non_exhaustive()
    }
}

/// Writes the methods that set the [`ConditionalOptions`](crate::authoring::conditional::ConditionalOptions) in this field, for
/// the options of a backend that has constants for the defaults. The texts say more about an option of this store.
#[doc(hidden)]
#[macro_export]
macro_rules! conditional_options {
    (
        $field:ident:
        request_timeout = $request:literal,
        operation_timeout = $operation:literal,
        connect_timeout = $connect:literal,
        remembered_locks = $remembered:literal,
        strict_clock = $strict:literal $(,)?
    ) => {
        $crate::client_options!($field.client);

        /// Sets the longest to wait for the answer to one call, 1 ms to 100 years.
        #[doc = $request]
        pub fn with_request_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.$field.request_timeout = timeout;
            self
        }

        /// Sets the longest that an operation may take, including all of its calls and retries; at least the request
        /// timeout.
        #[doc = $operation]
        pub fn with_operation_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.$field.operation_timeout = timeout;
            self
        }

        /// Sets the longest that opening a connection may take, 1 ms to 100 years.
        #[doc = $connect]
        pub fn with_connect_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.$field.connect_timeout = timeout;
            self
        }

        /// Sets how many of its own locks the backend remembers, which saves a call for each release and extend. Default:
        /// 8192; 0 turns it off.
        #[doc = $remembered]
        pub fn with_remembered_locks(mut self, locks: usize) -> Self {
            self.$field.remembered_locks = locks;
            self
        }

        /// Sets whether the backend acquires nothing while the store has told no time, and takes no lock over while its time
        /// is known to within more than the tolerance. Default: no.
        #[doc = $strict]
        pub fn with_strict_clock(mut self, strict: bool) -> Self {
            self.$field.strict_clock = strict;
            self
        }

        /// Lets `is_locked` delete a lock that expired more than three seconds ago, in the background. Default: no. It never
        /// deletes a fence counter, or a lock that was taken meanwhile.
        pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
            self.$field.cleanup_in_is_locked = cleanup;
            self
        }

        /// Replaces the system's clock, for tests.
        #[cfg(feature = "test-util")]
        pub fn with_clock(
            mut self,
            clock: impl Fn() -> ::std::time::SystemTime + Send + Sync + 'static,
        ) -> Self {
            self.$field.clock = ::std::sync::Arc::new(clock);
            self
        }
    };
}
