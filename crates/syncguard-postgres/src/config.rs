//! The options of a backend.

use std::time::Duration;

use syncguard_core::CredentialsProvider;
use syncguard_core::authoring::ClientOptions;
#[cfg(feature = "tls")]
use syncguard_core::authoring::tls::TlsOptions;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, Socket};

use crate::cancel_request::CancelRequests;
use crate::dial;
use crate::signals::route::{Route, SignalOptions};

/// Options of a [`PostgresBackend`](crate::PostgresBackend). TypeScript: `PostgresBackendOptions`.
///
/// A value that is out of range is reported when the backend is made.
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
#[expect(clippy::struct_excessive_bools, reason = "each is one option")]
#[must_use]
pub struct PostgresOptions {
    pub(crate) lock_table: String,
    pub(crate) fence_table: String,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) client: ClientOptions,
    pub(crate) credentials: Option<CredentialsProvider>,
    pub(crate) pool_size: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) pool_wait_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) operation_timeout: Option<Duration>,
    pub(crate) unprepared_statements: bool,
    pub(crate) strict_durability: bool,
    pub(crate) trusted_owner: String,
    pub(crate) schema_upgrade: bool,
    pub(crate) cancel: Option<CancelRequests>,
    pub(crate) signals: SignalOptions,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsOptions,
}

impl PostgresOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            lock_table: "syncguard_locks".to_owned(),
            fence_table: "syncguard_fence_counters".to_owned(),
            cleanup_in_is_locked: false,
            client: ClientOptions::default(),
            credentials: None,
            pool_size: 10,
            connect_timeout: dial::DEFAULT_LIMIT,
            pool_wait_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(5),
            operation_timeout: None,
            unprepared_statements: false,
            strict_durability: false,
            trusted_owner: String::new(),
            schema_upgrade: false,
            cancel: None,
            signals: SignalOptions { are_on: true, route: None },
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
        }
    }

    /// Sets the lock table and the table of fence counters, each with a schema if needed:
    /// `"ops.app_locks"`. Default: `syncguard_locks` and `syncguard_fence_counters`.
    ///
    /// The statements quote the names, as those of the TypeScript library do: `App_Locks` is the table that SQL calls
    /// `"App_Locks"`, and not `app_locks`. A name matches `[A-Za-z_][A-Za-z0-9_]*` and has 63 bytes at most, and the two
    /// names differ.
    pub fn with_tables(mut self, locks: impl Into<String>, fences: impl Into<String>) -> Self {
        self.lock_table = locks.into();
        self.fence_table = fences.into();
        self
    }

    /// Sets whether `is_locked` deletes, in the background, a lock that has been expired for 3 seconds or more.
    /// Default: no. The answer is the same either way, and fence counters stay.
    pub fn with_cleanup_in_is_locked(mut self, cleanup: bool) -> Self {
        self.cleanup_in_is_locked = cleanup;
        self
    }

    syncguard_core::client_options!(client);

    syncguard_core::credentials_option!(credentials);

    /// Limits the connections in the pool of [`connect`](crate::PostgresBackend::connect), 1 to 10000. Default: 10.
    /// Contenders and holders share a single connection.
    pub fn with_pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// Limits the time that each address has to answer and to log a connection of that pool in, 1 ms to 100 years,
    /// unless the URL has a `connect_timeout`. Default: 5 s.
    ///
    /// The addresses of all hosts are tried one after another, each half a second after the one before or earlier, and
    /// the first that has logged in wins: a silent address costs its head start, and no more. An opening whose caller
    /// gives up goes on for the next caller.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    #[cfg(feature = "tls")]
    syncguard_core::tls_options!(tls);

    /// Limits an operation, the wait for its connection and all its statements included, 1 ms to 100 years. Default: the pool
    /// wait timeout and twice the statement timeout, 15 s, since no operation takes longer. Neither of the two lasts longer than
    /// a limit that is set here.
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = Some(timeout);
        self
    }

    /// Limits the wait for a connection of the pool, its opening included, 1 ms to 100 years. Default: 5 s.
    pub fn with_pool_wait_timeout(mut self, timeout: Duration) -> Self {
        self.pool_wait_timeout = timeout;
        self
    }

    /// Limits the wait for the answer to a statement, 1 ms to 100 years. Default: 5 s.
    ///
    /// The server waits for another session at most half as long. In the sessions of a pool that
    /// [`connect`](crate::PostgresBackend::connect) makes, it ends a statement after nine tenths of this time: the
    /// server's answer tells the outcome of the statement. A longer `lock_timeout` or `statement_timeout` of the role
    /// or the database stays in these sessions; a shorter one, which would end ordinary waits, does not.
    ///
    /// A statement that gets no answer in time is cancelled in the background, and its connection
    /// serves again once the server has answered.
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Sets whether statements are sent without being prepared, which PgBouncer needs in transaction or
    /// statement mode. Default: no, because the server then plans each statement anew.
    pub fn with_unprepared_statements(mut self, unprepared: bool) -> Self {
        self.unprepared_statements = unprepared;
        self
    }

    /// Sets whether to refuse a database that may forget a lock it has granted: see
    /// [`DurabilityReport`](crate::DurabilityReport). Default: no, only a warning. Tables that [others can act
    /// on](crate::DurabilityRisk::is_always_refused) are refused in any case.
    ///
    /// Over a pool of your own, the first operation checks.
    pub fn with_strict_durability(mut self, strict: bool) -> Self {
        self.strict_durability = strict;
        self
    }

    /// Trusts the tables of this role as they are, with all that it has put on them and all rights that it has given.
    /// Default: nobody's; an empty text means the same.
    ///
    /// Code on them that uses a function, an operator or a type of a role that is not trusted stays refused. An expression
    /// itself has no owner: before you trust the owner of a table that was somebody else's, make the table anew.
    ///
    /// The owner of a table decides what happens to locks, and the code of its triggers, defaults and expressions runs as
    /// the role that takes a lock. So the backend works only with tables that belong to its own role, to a role that its
    /// role may become, to the owner of the schema or of the database, or to a superuser, and that have no code on them:
    /// see [`DurabilityRisk`](crate::DurabilityRisk). Name the owner of the tables if it is another role, such as the
    /// role that runs your migrations, or if a table has a trigger whose
    /// function is that owner's.
    pub fn with_trusted_owner(mut self, role: impl Into<String>) -> Self {
        self.trusted_owner = role.into();
        self
    }

    /// Sets whether [`setup_schema`](crate::setup_schema) also adds the columns that tables of the TypeScript library or
    /// of an earlier version lack, today `holder`. Default: no; locks work without.
    ///
    /// Each open connection of the TypeScript library fails once per statement after a column was added: see the
    /// [guide](https://docs.rs/syncguard/latest/syncguard/guide/from_typescript/). So add columns at a quiet time.
    pub fn with_schema_upgrade(mut self, upgrade: bool) -> Self {
        self.schema_upgrade = upgrade;
        self
    }

    /// Cancels statements that are given up over connections with this TLS connector, or `NoTls`, also
    /// in a pool without prepared statements.
    ///
    /// ```
    /// use syncguard_postgres::PostgresOptions;
    /// use syncguard_postgres::tokio_postgres::NoTls;
    ///
    /// let options = PostgresOptions::new().with_cancel_requests(NoTls);
    /// ```
    ///
    /// Two kinds of pools need it, and get no cancellations without it. A statement there keeps its connection
    /// until the server ends the statement.
    ///
    /// - A pool of your own whose `sslmode` is `require`: pass the connector of the pool. Without it,
    ///   requests to cancel go to the session's server in plain text, as libpq sent them until version 17.
    /// - A pool [without prepared statements](Self::with_unprepared_statements), which leads to a pooler, also one
    ///   that [`connect`](crate::PostgresBackend::connect) makes. **PgBouncer must be version 1.21 or later**: some
    ///   earlier ones crash on a cancellation.
    pub fn with_cancel_requests<T>(mut self, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.cancel = Some(CancelRequests::new(tls));
        self
    }

    /// Sets whether waiters hear of releases by other processes, and releases signal the waiters of other
    /// processes. Default: yes.
    ///
    /// While a task of this process waits, signals take one connection beside the pool, and an advisory lock
    /// for each key in the session of that connection: see [the crate's front page](crate#waiting). Without
    /// signals, waiters poll.
    pub fn with_signals(mut self, signals: bool) -> Self {
        self.signals.are_on = signals;
        self
    }

    /// Sets how to open the connection on which waiters hear of releases by other processes: the
    /// configuration that the pool connects with, and its TLS connector, or `NoTls`.
    ///
    /// Two kinds of pools need it. Without it, their waiters poll, and their releases still signal the waiters
    /// of other processes.
    ///
    /// - A pool of your own, because it does not tell how it connects.
    /// - A pool that leads to a pooler such as PgBouncer: give a way past the pooler, to the database itself.
    ///
    /// The connection must lead to the same database. The role needs no privileges on the tables, and if it may read the lock
    /// table, [waiting for many keys](crate#waiting) costs less.
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
        self.signals.route = Some(Route::new(config.clone(), tls, None));
        self
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}
