//! The PostgreSQL backend.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use deadpool_postgres::Pool;
use syncguard_core::authoring::cancel::{self, Caller};
use syncguard_core::authoring::cancel::{ExtendBatches, Settle, Settled, Unsettled};
use syncguard_core::authoring::reported_health;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ExtendRequest, IsLockedRequest, KeyWatch,
    LookupRequest, ReleaseRequest, TimeAuthority, WatchRequest,
};
use syncguard_core::diagnostics::Health;
use syncguard_core::inventory::Inventory;
use syncguard_core::shared::ClientState;
use syncguard_core::{
    ErrorCode, ExtendResult, Fence, LockBackend, LockError, LockId, LockInfo, ReleaseResult,
    Timestamp,
};
use tokio::sync::OnceCell;
use tokio_postgres::Transaction;

use crate::acquire::acquire;
use crate::check_fence::CheckFenceError;
use crate::config::PostgresOptions;
use crate::connect::{Connectors, connectors, make_pool};
use crate::durability::DurabilityReport;
use crate::extend::{extend, extend_many};
use crate::health;
use crate::inner::Inner;
use crate::is_locked::is_locked;
use crate::lookup::lookup;
use crate::names;
use crate::pool::StatementPool;
use crate::release::release;
use crate::resent_acquires::ResentAcquires;
use crate::schema::set_up;
use crate::settings::Settings;
use crate::statements::Statements;
use crate::url::{self, Parsed};

/// Locks in two tables of a PostgreSQL database.
///
/// Each operation is one statement, committed by itself: one round trip on a connection that has prepared the
/// statement before. An interrupted operation leaves nothing open. Clones share the pool.
#[derive(Clone)]
pub struct PostgresBackend(Arc<Inner>);

impl PostgresBackend {
    /// Makes a backend over a pool of your own, with its TLS. Sends nothing.
    ///
    /// The tables must exist: see [`setup_schema`](crate::setup_schema). The first operation checks them, as
    /// [`connect`](Self::connect) does. One connection of the pool is kept for
    /// holders that extend or release their lock; contenders share the others. A pool that hands out connections
    /// in the middle of a transaction voids every promise, because nothing in that transaction is committed.
    ///
    /// The connections are yours. Give the role a `lock_timeout` if waits for a locked table should end before the
    /// [statement timeout](PostgresOptions::with_statement_timeout), and the configuration of several hosts a
    /// `connect_timeout`, so that all of them together take less than the
    /// [pool wait timeout](PostgresOptions::with_pool_wait_timeout): the driver tries one after another. When a
    /// statement gets no answer, or the answer that the server is read-only, the backend closes the connections that
    /// wait in the pool, once a second at most: they may be as silent, or lead to the same server.
    /// [`with_cancel_requests`](PostgresOptions::with_cancel_requests) cancels statements over encrypted
    /// connections and without prepared statements. [`with_signals_over`](PostgresOptions::with_signals_over) lets waiters
    /// hear of releases by other processes.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an option that is out of range.
    pub fn from_pool(pool: Pool, options: PostgresOptions) -> Result<Self, LockError> {
        Ok(Self::over(pool, Settings::new(options)?))
    }

    fn over(pool: Pool, settings: Settings) -> Self {
        let pool = StatementPool::new(pool, &settings);
        Self(Arc::new(Inner {
            signals: Arc::clone(&pool.elsewhere.signals),
            pool,
            statements: Statements::new(&settings),
            settings,
            checked: OnceCell::new(),
            lacks_holders: Mutex::default(),
            resent_acquires: ResentAcquires::default(),
            extends: ExtendBatches::default(),
            extends_alone: AtomicBool::new(false),
        }))
    }

    /// Makes a pool and checks the server, with the options of the URL and defaults for the rest.
    ///
    /// `postgres://user:password@host:5432/database?name=value&…`, or `postgresql://…`. Special
    /// characters are percent-encoded, in user name and password as well. Commas separate several hosts. Of several
    /// hosts, or of several addresses of one name, the backend uses one that accepts writes, unless
    /// `target_session_attrs` says otherwise, and a silent one does not keep it from the others.
    ///
    /// Options have the names of the methods of [`PostgresOptions`] that set them. Times are whole milliseconds,
    /// switches `true` or `false`.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `lock_table` | the lock table, with a schema if needed: `ops.app_locks` | `syncguard_locks` |
    /// | `fence_table` | the table of fence counters | `syncguard_fence_counters` |
    /// | `setup_schema` | creates missing tables: [`setup_schema`](Self::setup_schema) | `false` |
    /// | `upgrade_schema` | the same, and adds missing columns: [`with_schema_upgrade`](PostgresOptions::with_schema_upgrade) | `false` |
    /// | `pool_size` | the most connections, 1 to 10000 | 10 |
    /// | `connect_timeout_ms` | the limit for an address to answer and to log in | 5000 |
    /// | `pool_wait_timeout_ms` | the limit for the wait for a connection of the pool | 5000 |
    /// | `operation_timeout_ms` | the limit for an operation, with the wait for its connection and all its statements | the pool wait timeout and twice the statement timeout |
    /// | `statement_timeout_ms` | the limit for the answer to a statement | 5000 |
    /// | `unprepared_statements` | sends statements as PgBouncer's transaction mode needs them | `false` |
    /// | `signals` | lets waiters hear of releases by other processes: [`with_signals`](PostgresOptions::with_signals) | `true` |
    /// | `strict_durability` | refuses a database that may forget a lock | `false` |
    /// | `trusted_owner` | the role whose tables are trusted as they are: [`with_trusted_owner`](PostgresOptions::with_trusted_owner) | none |
    /// | `cleanup_in_is_locked` | lets `is_locked` delete expired locks | `false` |
    /// | `dispose_timeout_ms` | the limit for a release at the end of a guard | 5000 |
    /// | `holder` | the label of the holder, for people; empty is none | host name and process id |
    /// | `note` | a note beside the label | none |
    /// | `sslmode` | `disable`, `prefer`, or `require` (as strict as `verify-full`, which may be written too) | `prefer` |
    /// | `sslrootcert` | a PEM file of the authorities to trust instead of the system's; `system` requires TLS | |
    /// | `sslcert` | a PEM file of a [client certificate](PostgresOptions::with_client_certificate); requires TLS, unless `sslmode` is given | none |
    /// | `sslkey` | a PEM file of its key, which others must not be able to read | none |
    ///
    /// The other parameters are those of [`tokio_postgres::Config`], with times in seconds: `application_name`
    /// (default: `syncguard` and the label of the holder),
    /// `channel_binding`, `connect_timeout`, `dbname`, `host`, `hostaddr`, `keepalives`, `keepalives_idle`,
    /// `keepalives_interval`, `keepalives_retries`, `load_balance_hosts`, `options`, `password`, `port`,
    /// `sslnegotiation`, `target_session_attrs`, `tcp_user_timeout`, `user`.
    ///
    /// Three options are code and cannot be in a URL:
    /// [`with_on_release_error`](PostgresOptions::with_on_release_error),
    /// [`with_cancel_requests`](PostgresOptions::with_cancel_requests) and
    /// [`with_signals_over`](PostgresOptions::with_signals_over).
    ///
    /// # TLS
    ///
    /// With the feature `tls` and `sslmode=require`, or `prefer` and a server that offers TLS, the
    /// connection is encrypted, and the server's certificate and name are verified; `disable` turns
    /// TLS off. Without the feature, `prefer` is plain text and `require` is an error.
    ///
    /// # Errors
    ///
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::connect_with(url, PostgresOptions::new()).await
    }

    /// Makes a pool and checks the server. [`connect`](Self::connect) describes the URL, whose parameters
    /// override the options.
    ///
    /// The call takes the [pool wait timeout](PostgresOptions::with_pool_wait_timeout) and twice the
    /// [statement timeout](PostgresOptions::with_statement_timeout) at most; with `setup_schema` in the
    /// URL, the pool wait timeout and a minute more. The
    /// [connect timeout](PostgresOptions::with_connect_timeout) limits the opening of each connection.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad URL (the message says what is allowed and shows nothing of the URL),
    /// for a parameter that needs the feature `tls`, for tables that others can [act
    /// on](crate::DurabilityRisk::is_always_refused), and in strict mode for a database that can forget a lock;
    /// `AuthFailed`, `ServiceUnavailable` or `NetworkTimeout` if the server cannot be used.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn connect_with(url: &str, options: PostgresOptions) -> Result<Self, LockError> {
        let Parsed { config, options, setup_schema } = url::parse(url, options)?;
        let backend = Self::connect_later(config, &options, connectors)?;
        let report = if setup_schema {
            set_up(Arc::clone(&backend.0)).await?
        } else {
            backend.durability_report().await?
        };
        report.enforce(backend.0.settings.strict)?;
        let _ = backend.0.checked.set(());
        Ok(backend)
    }

    /// Makes a pool as [`connect`](Self::connect) does, and sends nothing. The first operation checks the server.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad URL.
    #[doc(hidden)]
    pub fn unchecked(url: &str) -> Result<Self, LockError> {
        let Parsed { config, options, .. } = url::parse(url, PostgresOptions::new())?;
        Self::connect_later(config, &options, connectors)
    }

    /// Makes a pool, and does not check the server yet.
    pub(crate) fn connect_later(
        config: tokio_postgres::Config,
        options: &PostgresOptions,
        connectors: impl FnOnce(
            tokio_postgres::Config,
            &PostgresOptions,
        ) -> Result<Connectors, LockError>,
    ) -> Result<Self, LockError> {
        let mut settings = Settings::new(options.clone())?;
        let pool = make_pool(config, options, &mut settings, connectors)?;
        Ok(Self::over(pool, settings))
    }

    /// Checks for settings that can make the database forget a lock.
    ///
    /// # Errors
    ///
    /// The store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: the report only reads.
    pub async fn durability_report(&self) -> Result<DurabilityReport, LockError> {
        let inner = Arc::clone(&self.0);
        cancel::finish(None, async move { inner.durability(&Caller::new(None)).await }).await
    }

    /// Runs [`setup_schema`](crate::setup_schema) with this backend's pool and options.
    ///
    /// # Errors
    ///
    /// As [`setup_schema`](crate::setup_schema).
    ///
    /// # Cancel safety
    ///
    /// As [`setup_schema`](crate::setup_schema).
    pub async fn setup_schema(&self) -> Result<(), LockError> {
        set_up(Arc::clone(&self.0)).await.map(drop)
    }

    /// Returns the pool. A pool that [`connect_with`](Self::connect_with) made is for locks alone. Unless
    /// statements are unprepared, its sessions plan without sequential scans, are `read committed`, and have a
    /// `lock_timeout` and a `statement_timeout`.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.0.pool.pool()
    }

    /// Ties a transaction of your own, in the same database, to a lock: the transaction can commit only
    /// while no other holder has the lock.
    ///
    /// The call checks that the lock is live and was acquired with this fence, and locks its row until your
    /// transaction ends. Until then no release and no other acquisition of the key can happen, even
    /// if the lock expires meanwhile; extends go on as usual. So **your transaction commits before any later
    /// holder acquires the lock**, and the argument needs no clock. On an error, end the transaction: drop it, or
    /// roll it back.
    ///
    /// Keep such a transaction short. While it is open, a release of the lock waits for it and fails
    /// after half the [statement timeout](PostgresOptions::with_statement_timeout), and contenders
    /// are told that the lock is held. Never await the release of the guard before the commit.
    ///
    /// One round trip. The role of the transaction needs `SELECT` and `UPDATE` on the lock table.
    ///
    /// ```no_run
    /// # use syncguard_postgres::{LockGuard, PostgresBackend};
    /// # async fn pay(
    /// #     client: &mut tokio_postgres::Client, backend: &PostgresBackend, guard: &LockGuard<PostgresBackend>,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let transaction = client.transaction().await?;
    /// backend.check_fence(&transaction, guard.lock_id(), guard.fence()).await?;
    /// transaction.execute("UPDATE accounts SET balance = balance - 5 WHERE id = 7", &[]).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CheckFenceError::NotHeld`] if the lock is gone, expired or has another fence; else the error of
    /// PostgreSQL. In a transaction of level `REPEATABLE READ` or `SERIALIZABLE`, this includes a
    /// serialization failure (`ServiceUnavailable`) if the lock has changed hands since the transaction's first
    /// statement; the transaction does not see extends since then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the row may be locked until the transaction ends.
    pub async fn check_fence(
        &self,
        transaction: &Transaction<'_>,
        lock_id: LockId,
        fence: Fence,
    ) -> Result<(), CheckFenceError> {
        self.0.check_fence(transaction, lock_id, fence).await
    }
}

impl PostgresBackend {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// Gives an operation up at the end of its limit, as if its caller had gone: what was sent is settled in the background.
    async fn within_limit<T>(
        &self,
        operation: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let limit = self.0.settings.operation;
        tokio::time::timeout(limit, operation).await.unwrap_or_else(|_| {
            let message = format!("no answer within the operation timeout of {limit:?}");
            Err(LockError::new(ErrorCode::NetworkTimeout, message).with_unknown_outcome())
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for PostgresBackend {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let acquired = cancel::finish_acquire_settled(self, request, |request, caller| {
            acquire(Arc::clone(&self.0), request, caller)
        });
        self.within_limit(acquired).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let (token, lock_id) = (request.cancellation.clone(), request.lock_id);
        let backend = self.clone();
        let operation = async move {
            let result = release(Arc::clone(&backend.0), request).await?;
            if let Some(acquire) = backend.0.resent_acquires.take(lock_id) {
                cancel::settle_later(&backend, acquire);
            }
            Ok(result)
        };
        self.within_limit(cancel::finish(token.as_ref(), operation)).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        if !self.0.extends_alone.load(Ordering::Relaxed) {
            let inner = Arc::clone(&self.0);
            let extend_many = move |requests| extend_many(Arc::clone(&inner), requests);
            let extended = self.0.extends.extend(0, &request, extend_many);
            let extended = self.within_limit(async { Ok(extended.await) }).await;
            if let Some(result) = extended? {
                return result;
            }
        }
        let token = request.cancellation.clone();
        let extended = cancel::finish(token.as_ref(), extend(Arc::clone(&self.0), request));
        self.within_limit(extended).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let token = request.cancellation.clone();
        let read = |caller| is_locked(Arc::clone(&self.0), request, caller);
        self.within_limit(cancel::finish_read(token.as_ref(), read)).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let token = request.cancellation.clone();
        let read = |caller| lookup(Arc::clone(&self.0), request, caller);
        self.within_limit(cancel::finish_read(token.as_ref(), read)).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let inner = Arc::clone(&self.0);
        let watch = async move {
            let storage_key = names::lock_name(&request.key)?;
            Ok(inner.signals.watch(storage_key.expose()).await)
        };
        cancel::finish_read(None, |_| watch).await.ok().flatten()
    }

    async fn health(&self) -> Health {
        let signals = || self.0.signals.status();
        let describe =
            |health: &mut Health, report| health::describe(health, report, &self.0.settings);
        reported_health(self, signals, self.durability_report(), describe).await
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("postgres", TimeAuthority::Server).with_fence_windows()
    }

    fn client_state(&self) -> &ClientState {
        &self.0.settings.client_state
    }
}

impl Settle for PostgresBackend {
    type VoidAfter = Timestamp;

    async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        self.0.settle(acquire).await
    }
}

impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBackend").field("settings", &self.0.settings).finish()
    }
}

/// Creates missing tables and indexes.
///
/// Idempotent, and safe if many processes run it at once. If nothing is missing, nothing is changed, and the role
/// needs no privilege but the use of the tables: for a role that may only use them, the call is a check. For the
/// owner of the tables, the call also sets their autovacuum settings, unless they have some.
///
/// Tables of the TypeScript library are kept. They lack the column for [holders](syncguard_core::contract::Holder), which
/// only [`with_schema_upgrade`](PostgresOptions::with_schema_upgrade) adds to them: locks work without.
///
/// To create the tables in your own migrations, see [`schema_sql`](crate::schema_sql).
///
/// # Errors
///
/// - `AuthFailed` if something is missing and the role may not create it, or if the role may not use the tables. The
///   message says what to run, and as which role.
/// - `InvalidArgument` if another kind of table has this name, if the schema does not exist, or if others could change
///   or hide the rows of the tables: see [`DurabilityRisk`](crate::DurabilityRisk::is_always_refused).
/// - The store's failures.
///
/// # Cancel safety
///
/// A started call goes on in the background. It creates everything or nothing.
pub async fn setup_schema(pool: &Pool, options: &PostgresOptions) -> Result<(), LockError> {
    PostgresBackend::from_pool(pool.clone(), options.clone())?.setup_schema().await
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_operation_ends_with_its_limit() {
        let url = "postgres://u:p@127.0.0.1/d?operation_timeout_ms=300";
        let backend = PostgresBackend::unchecked(url).unwrap();
        let started = Instant::now();
        let error = backend.within_limit::<()>(pending()).await.unwrap_err();
        assert_eq!(started.elapsed(), Duration::from_millis(300));
        assert!(error.code() == ErrorCode::NetworkTimeout && error.is_outcome_unknown(), "{error}");
    }
}
