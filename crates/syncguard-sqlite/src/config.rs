//! The options of a backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::ClientOptions;

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
    pub(crate) client: ClientOptions,
    pub(crate) gate: Option<Passage>,
}

/// The way of operations to the writer thread, if a test holds them back.
#[derive(Clone)]
pub(crate) struct Passage(pub(crate) Arc<dyn Fn(Sending) + Send + Sync>);

/// Sends an operation.
type Sending = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passage")
    }
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
    /// Returns the default options.
    pub fn new() -> Self {
        Self {
            operation_timeout: Duration::from_secs(5),
            synchronous: Synchronous::Full,
            strict_durability: false,
            cleanup_in_is_locked: false,
            client: ClientOptions::default(),
            gate: None,
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

    /// Sets whether to refuse a file that may forget a granted lock: see [the front page](crate#durability). Default: no, only a
    /// warning.
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

    syncguard_core::client_options!(client);

    /// Calls this with each operation, and the call of what it gets sends the operation to the writer thread, for tests.
    #[cfg(feature = "test-util")]
    pub fn with_passage(mut self, pass: impl Fn(Sending) + Send + Sync + 'static) -> Self {
        self.gate = Some(Passage(Arc::new(pass)));
        self
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}
