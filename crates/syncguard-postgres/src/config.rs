//! What can be set.

use std::time::Duration;

use syncguard_core::authoring::ClientOptions;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, Socket};

use crate::cancel_request::{CancelRequests, CancelStream};
use crate::signals::{Route, SignalOptions};

/// Options of a [`PostgresBackend`](crate::PostgresBackend). TypeScript: `PostgresBackendOptions`.
///
/// What is out of range is reported when the backend is made.
///
/// ```
/// use std::time::Duration;
/// use syncguard_postgres::PostgresOptions;
///
/// let options = PostgresOptions::new()
///     .with_tables("ops.app_locks", "ops.app_fence_counters")
///     .with_statement_timeout(Duration::from_secs(2));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PostgresOptions {
    pub(crate) lock_table: String,
    pub(crate) fence_table: String,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) client: ClientOptions,
    pub(crate) pool_size: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) pool_wait_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) unprepared_statements: bool,
    pub(crate) strict_durability: bool,
    pub(crate) cancel: Option<CancelRequests>,
    pub(crate) signals: SignalOptions,
    /// In DER; the system's if there are none.
    #[cfg(feature = "tls")]
    pub(crate) root_certificates: Vec<Vec<u8>>,
}

impl PostgresOptions {
    /// The lock table unless another is set, as in the TypeScript library.
    pub const DEFAULT_LOCK_TABLE: &'static str = "syncguard_locks";

    /// The table of fence counters unless another is set, as in the TypeScript library.
    pub const DEFAULT_FENCE_TABLE: &'static str = "syncguard_fence_counters";

    /// The pool size unless another is set.
    pub const DEFAULT_POOL_SIZE: usize = 10;

    /// The connect timeout unless another is set.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The pool wait timeout unless another is set.
    pub const DEFAULT_POOL_WAIT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The statement timeout unless another is set.
    pub const DEFAULT_STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The defaults.
    pub fn new() -> Self {
        Self {
            lock_table: Self::DEFAULT_LOCK_TABLE.to_owned(),
            fence_table: Self::DEFAULT_FENCE_TABLE.to_owned(),
            cleanup_in_is_locked: false,
            client: ClientOptions::default(),
            pool_size: Self::DEFAULT_POOL_SIZE,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            pool_wait_timeout: Self::DEFAULT_POOL_WAIT_TIMEOUT,
            statement_timeout: Self::DEFAULT_STATEMENT_TIMEOUT,
            unprepared_statements: false,
            strict_durability: false,
            cancel: None,
            signals: SignalOptions { are_on: true, route: None },
            #[cfg(feature = "tls")]
            root_certificates: Vec::new(),
        }
    }

    /// The lock table and the table of fence counters, each with a schema if need be:
    /// `"ops.app_locks"`. Default: `syncguard_locks` and `syncguard_fence_counters`.
    ///
    /// Names are taken as PostgreSQL takes them without quotes, that is in lower case, so that both
    /// libraries mean the same table. A name matches `[A-Za-z_][A-Za-z0-9_]*` and has 63 bytes at most, and
    /// the two are not one table.
    pub fn with_tables(mut self, locks: impl Into<String>, fences: impl Into<String>) -> Self {
        self.lock_table = locks.into();
        self.fence_table = fences.into();
        self
    }

    /// Whether `is_locked` deletes a lock that it finds expired for 3 seconds or more, in the
    /// background. Default: no. The answer is the same either way, and fence counters stay.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    syncguard_core::client_options!(client);

    /// How many connections the pool of [`connect`](crate::PostgresBackend::connect) has at most, 1 to 10000.
    /// Default: 10. With one, contenders and holders share it.
    pub fn with_pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// The longest the opening of a connection of that pool may take, 1 ms to 100 years, unless the URL has
    /// a `connect_timeout`. Default: 5 s.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Trusts this authority's certificate (X.509 in DER), and others given the same way, instead of
    /// the system's. For that pool; a pool of the program's own has its own TLS.
    ///
    /// One that cannot be read is an `InvalidArgument` when the backend is made. In a URL it is
    /// `sslrootcert`, the path of a PEM file, which replaces all that are given here.
    #[cfg(feature = "tls")]
    pub fn with_root_certificate(mut self, der: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(der.into());
        self
    }

    /// The longest to wait for a connection of the pool, one that has to be opened included, 1 ms to
    /// 100 years. Default: 5 s.
    pub fn with_pool_wait_timeout(mut self, timeout: Duration) -> Self {
        self.pool_wait_timeout = timeout;
        self
    }

    /// The longest to wait for the answer to a statement, 1 ms to 100 years. Default: 5 s.
    ///
    /// The server waits for another session at most half as long, unless the role or the database
    /// has a `lock_timeout` of its own. In the sessions of a pool that
    /// [`connect`](crate::PostgresBackend::connect) makes it ends a statement after nine tenths of
    /// it, unless they have a `statement_timeout`: its own word tells what became of the statement.
    ///
    /// A statement that gets no answer in time is cancelled in the background, and its connection
    /// serves again once the server has answered.
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Whether statements are sent without preparing them, as PgBouncer in transaction or statement
    /// mode needs it. Default: no, because the server then plans each statement anew.
    pub fn with_unprepared_statements(mut self, unprepared: bool) -> Self {
        self.unprepared_statements = unprepared;
        self
    }

    /// Whether to refuse a database that may forget a lock it has granted: see
    /// [`DurabilityReport`](crate::DurabilityReport). Default: no, only a warning.
    ///
    /// Over a pool of your own, it is the first acquire that checks.
    pub fn with_strict_durability(mut self, strict: bool) -> Self {
        self.strict_durability = strict;
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

    /// Whether waiters hear of releases by other processes, and releases tell those of other processes.
    /// Default: yes.
    ///
    /// While somebody of this process waits, it takes one connection beside the pool, and for each key an
    /// advisory lock in the session of that connection: see
    /// [the crate's front page](crate#waiting). Without it, waiters poll.
    pub fn with_signals(mut self, signals: bool) -> Self {
        self.signals.are_on = signals;
        self
    }

    /// Where and how to open the connection on which releases by other processes are heard: the
    /// configuration that the pool connects with, and its TLS connector, or `NoTls`.
    ///
    /// Needed over a pool of your own, which does not say how it connects. Without it its waiters poll, and
    /// its releases are heard by others all the same. And where the pool leads to a pooler such as
    /// PgBouncer: a way past it, to the database itself.
    ///
    /// It must be the same database. The role needs no privileges on the tables.
    ///
    /// ```
    /// use syncguard_postgres::PostgresOptions;
    /// use syncguard_postgres::tokio_postgres::{Config, NoTls};
    ///
    /// let config: Config = "host=/run/postgresql user=app".parse()?; // the pool's
    /// let options = PostgresOptions::new().with_signals_over(&config, NoTls);
    /// # Ok::<(), syncguard_postgres::tokio_postgres::Error>(())
    /// ```
    pub fn with_signals_over<T>(mut self, config: &Config, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.signals.route = Some(Route::new(config.clone(), tls));
        self
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}
