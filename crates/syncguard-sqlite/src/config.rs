//! What can be set.

use std::time::Duration;

use syncguard_core::authoring::ClientOptions;

/// Options of a [`SqliteBackend`](crate::SqliteBackend).
///
/// What is out of range is reported when the backend is made.
///
/// ```
/// use std::time::Duration;
/// use syncguard_sqlite::SqliteOptions;
///
/// let options = SqliteOptions::new()
///     .with_operation_timeout(Duration::from_secs(2))
///     .with_strict_durability(true);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteOptions {
    pub(crate) operation_timeout: Duration,
    pub(crate) synchronous: Synchronous,
    pub(crate) strict_durability: bool,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) client: ClientOptions,
    #[cfg(feature = "test-util")]
    pub(crate) gate: crate::Gate,
}

/// When SQLite waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Synchronous {
    /// At every commit that grants a lock or raises a fence, so that a fence that was handed out survives a power
    /// cut. On systems other than Linux, where the boot is not known, at every commit.
    #[default]
    Full,
    /// Now and then. Programs may crash in any way, but a power cut or a crash of the system can take back
    /// the last moments: fences that were handed out are then handed out again. Locks of before a
    /// restart are over anyway.
    Normal,
}

impl Synchronous {
    pub(crate) fn as_sql(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

impl SqliteOptions {
    /// The operation timeout unless another is set.
    pub const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

    /// The defaults.
    pub fn new() -> Self {
        Self {
            operation_timeout: Self::DEFAULT_OPERATION_TIMEOUT,
            synchronous: Synchronous::Full,
            strict_durability: false,
            cleanup_in_is_locked: false,
            client: ClientOptions::default(),
            #[cfg(feature = "test-util")]
            gate: crate::Gate::default(),
        }
    }

    /// The longest an operation may take, and the opening of the file, 1 ms to 100 years. Default: 5 s.
    ///
    /// So long another process may keep the file to itself before an operation fails.
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// When SQLite waits for the disk. Default: [`Synchronous::Full`].
    pub fn with_synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Whether to refuse a file that may forget a lock it has granted: see
    /// [`DurabilityReport`](crate::DurabilityReport). Default: no, only a warning.
    pub fn with_strict_durability(mut self, strict: bool) -> Self {
        self.strict_durability = strict;
        self
    }

    /// Whether `is_locked` deletes a lock that has been expired for 3 s or more. Default: no.
    ///
    /// The next acquisition of the key overwrites it anyway. Fence counters are never deleted.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    syncguard_core::client_options!(client);

    /// For tests: what holds operations back before they reach the file.
    #[cfg(feature = "test-util")]
    pub fn with_gate(mut self, gate: crate::Gate) -> Self {
        self.gate = gate;
        self
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}
