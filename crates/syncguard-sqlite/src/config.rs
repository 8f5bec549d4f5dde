//! The options of a backend.

use std::time::Duration;

use syncguard_core::contract::{ClientState, ReleaseErrorHandler};

/// Options of a [`SqliteBackend`](crate::SqliteBackend).
///
/// The constructors of the backend report values that are out of range.
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
    pub(crate) on_release_error: ReleaseErrorHandler,
    pub(crate) dispose_timeout: Duration,
    pub(crate) holder: Option<String>,
    pub(crate) note: Option<String>,
    #[cfg(feature = "test-util")]
    pub(crate) gate: crate::Gate,
}

/// When SQLite waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Synchronous {
    /// SQLite waits at every commit that grants a lock or raises a fence, so that a fence that was handed out
    /// survives a power cut. On systems other than Linux, which do not show their boot, it waits at every
    /// commit.
    #[default]
    Full,
    /// SQLite waits only now and then. No crash of a program loses data, but a power cut or a crash of the
    /// system can undo the last moments. Fences that were handed out then are handed out again. Locks from
    /// before a restart are over anyway.
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
    /// The default operation timeout.
    pub const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

    /// Returns the default options.
    pub fn new() -> Self {
        Self {
            operation_timeout: Self::DEFAULT_OPERATION_TIMEOUT,
            synchronous: Synchronous::Full,
            strict_durability: false,
            cleanup_in_is_locked: false,
            on_release_error: ReleaseErrorHandler::default(),
            dispose_timeout: ClientState::DISPOSE_TIMEOUT,
            holder: None,
            note: None,
            #[cfg(feature = "test-util")]
            gate: crate::Gate::default(),
        }
    }

    /// Sets the longest that an operation or the opening of the file may take, 1 ms to 100 years. Default:
    /// 5 s.
    ///
    /// An operation fails if another process keeps the file locked for longer.
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// Sets when SQLite waits for the disk. Default: [`Synchronous::Full`].
    pub fn with_synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets whether to refuse a file that may forget a granted lock: see
    /// [`DurabilityReport`](crate::DurabilityReport). Default: no, only a warning.
    pub fn with_strict_durability(mut self, strict: bool) -> Self {
        self.strict_durability = strict;
        self
    }

    /// Sets whether `is_locked` deletes a lock that expired at least 3 s ago. Default: no.
    ///
    /// The next acquisition of the key overwrites such a lock anyway. Fence counters are never deleted.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    /// Sets the handler for errors of releases that no caller waits for. Default: a warning in the log.
    pub fn with_on_release_error(mut self, handler: ReleaseErrorHandler) -> Self {
        self.on_release_error = handler;
        self
    }

    /// Sets the longest that a guard's release may take before it is reported as failed, 1 ms to 100 years.
    /// Default: 5 s.
    pub fn with_dispose_timeout(mut self, timeout: Duration) -> Self {
        self.dispose_timeout = timeout;
        self
    }

    /// Sets the label of the holder, for people to read: the store keeps it with each lock. Up to 128 bytes
    /// and no control characters; empty is none. Default: host name and process id. A
    /// [`Locker`](crate::Locker) or a [`LockConfig`](crate::LockConfig::with_holder) can set another one.
    pub fn with_holder(mut self, label: impl Into<String>) -> Self {
        self.holder = Some(label.into());
        self
    }

    /// Sets a note beside the [label](Self::with_holder), with the same limits. Default: none.
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets a gate that holds operations back before they reach the writer thread, for tests.
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
