//! What can be set.

use std::time::Duration;

use syncguard_core::{GuardDefaults, LockError, ReleaseErrorHandler, checked_timeout};
use tokio_postgres::Config;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};

use crate::cancel_request::{CancelRequests, CancelStream};
use crate::tables::Tables;

/// How a backend uses its database.
///
/// ```
/// use std::time::Duration;
/// use syncguard_postgres::PostgresOptions;
///
/// let options = PostgresOptions::new()
///     .with_tables("ops.app_locks", "ops.app_fence_counters")?
///     .with_statement_timeout(Duration::from_secs(2))?;
/// # Ok::<(), syncguard_postgres::LockError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PostgresOptions {
    pub(crate) tables: Tables,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) guards: GuardDefaults,
    pub(crate) pool_wait: Duration,
    pub(crate) statement: Duration,
    pub(crate) unprepared: bool,
    pub(crate) strict: bool,
    pub(crate) cancel: Option<CancelRequests>,
}

impl PostgresOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            tables: Tables::default(),
            cleanup_in_is_locked: false,
            guards: GuardDefaults::default(),
            pool_wait: Duration::from_secs(5),
            statement: Duration::from_secs(5),
            unprepared: false,
            strict: false,
            cancel: None,
        }
    }

    /// Sets the lock table and the table of fence counters, each with a schema if need be:
    /// `"ops.app_locks"`. Default: `syncguard_locks` and `syncguard_fence_counters`.
    ///
    /// Names are taken as PostgreSQL takes them without quotes, that is in lower case, so that both
    /// libraries mean the same table.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name that does not match `[A-Za-z_][A-Za-z0-9_]*` or is longer than
    /// 63 bytes, and for two names that may mean one table.
    pub fn with_tables(mut self, locks: &str, fences: &str) -> Result<Self, LockError> {
        self.tables = Tables::new(locks, fences)?;
        Ok(self)
    }

    /// Whether `is_locked` deletes a lock that it finds expired for 3 seconds or more, in the
    /// background. Default: no. The answer is the same either way, and fence counters stay.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    /// Hears of releases that failed unheard. Default: a warning through `tracing`.
    pub fn with_on_release_error(mut self, handler: ReleaseErrorHandler) -> Self {
        self.guards = self.guards.with_on_release_error(handler);
        self
    }

    /// The longest a guard's release may take before it is reported as failed. Default: 5 s.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below one millisecond or above 100 years.
    pub fn with_dispose_timeout(mut self, timeout: Duration) -> Result<Self, LockError> {
        self.guards = self.guards.with_dispose_timeout(timeout)?;
        Ok(self)
    }

    /// The longest to wait for a connection of the pool, one that has to be opened included.
    /// Default: 5 s.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below one millisecond or above 100 years.
    pub fn with_pool_wait_timeout(mut self, timeout: Duration) -> Result<Self, LockError> {
        self.pool_wait = checked_timeout("pool wait timeout", timeout)?;
        Ok(self)
    }

    /// The longest to wait for the answer to a statement. Default: 5 s.
    ///
    /// The server waits for another session at most half as long, unless the role or the database
    /// has a `lock_timeout` of its own. In the sessions of a pool that
    /// [`connect`](crate::PostgresBackend::connect) makes it ends a statement after nine tenths of
    /// it, unless they have a `statement_timeout`: its own word tells what became of the statement.
    ///
    /// A statement that gets no answer in time is cancelled in the background, and its connection
    /// serves again once the server has answered.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below one millisecond or above 100 years.
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Result<Self, LockError> {
        self.statement = checked_timeout("statement timeout", timeout)?;
        Ok(self)
    }

    /// Whether statements are sent without preparing them, as PgBouncer in transaction or statement
    /// mode needs it. Default: no, because the server then plans each statement anew.
    pub fn with_unprepared_statements(mut self, unprepared: bool) -> Self {
        self.unprepared = unprepared;
        self
    }

    /// Whether to refuse a database that may forget a lock it has granted: see
    /// [`DurabilityReport`](crate::DurabilityReport). Default: no, only a warning.
    ///
    /// Over a pool of your own, it is the first acquire that checks.
    pub fn with_strict_durability(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Where and how to cancel statements that are given up, over a pool of your own: the
    /// configuration that the pool connects with, and its TLS connector, or `NoTls`.
    ///
    /// ```
    /// use syncguard_postgres::PostgresOptions;
    /// use syncguard_postgres::tokio_postgres::{Config, NoTls};
    ///
    /// let config: Config = "host=/run/postgresql user=app".parse()?; // the pool's
    /// let options = PostgresOptions::new().with_cancel_requests(&config, NoTls);
    /// # Ok::<(), syncguard_postgres::tokio_postgres::Error>(())
    /// ```
    ///
    /// Without it, requests to cancel go to the session's server in plain text, as libpq sent them
    /// until version 17. Two kinds of pools then get none: those whose `sslmode` is `require`, and those
    /// that lead to a pooler. There, a statement keeps its connection until the server ends it.
    ///
    /// A request goes to all hosts of the configuration. Those that do not have the session ignore it.
    ///
    /// Of no effect on a pool that [`connect`](crate::PostgresBackend::connect) makes: all is known of
    /// that one.
    pub fn with_cancel_requests<T>(mut self, config: &Config, tls: T) -> Self
    where
        T: MakeTlsConnect<CancelStream> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<CancelStream>>::Future: Send,
    {
        self.cancel = Some(CancelRequests::to(config, tls));
        self
    }

    /// How statements are cancelled, if they are. Over an unknown pool that has to do without prepared
    /// statements they are not: it leads to a pooler.
    pub(crate) fn cancel_requests(&self) -> Option<CancelRequests> {
        self.cancel.clone().or_else(|| (!self.unprepared).then(CancelRequests::by_driver))
    }

    /// How long the server may wait for another session, in whole milliseconds and never 0, which
    /// would mean for ever.
    pub(crate) fn lock_timeout_ms(&self) -> u128 {
        (self.statement / 2).as_millis().clamp(1, 1 << 30)
    }

    /// After how long the server ends a statement, in whole milliseconds and never 0: a little before
    /// it is given up here, so that its word arrives in time.
    pub(crate) fn statement_timeout_ms(&self) -> u128 {
        (self.statement.as_millis() * 9 / 10).clamp(1, 1 << 30)
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}
