//! PostgreSQL backend of SyncGuard: distributed locks with fencing tokens in two tables of a
//! database you already have. PostgreSQL 13 or newer.
//!
//! This crate re-exports the whole contract, so a PostgreSQL user needs no other crate.
//!
//! ```toml
//! [dependencies]
//! syncguard-postgres = { version = "0.1", features = ["tls"] } # plain text needs no `tls`
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use syncguard_postgres::{LockConfig, PostgresBackend, lock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), syncguard_postgres::LockError> {
//! let backend = PostgresBackend::connect("postgres://app:secret@db.example/app").await?;
//! backend.setup_schema().await?; // once; or put `schema_sql` into your migrations
//!
//! let nightly = LockConfig::new("job:nightly").with_ttl(Duration::from_secs(60));
//! lock(&backend, nightly, async |held| {
//!     // … only this process runs the job; send `held.fence()` along with every write …
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The URL can set the options, as in
//! `postgres://app:secret@db.example/app?setup_schema=true&lock_table=ops.locks`:
//! [`PostgresBackend::connect`] has the table.
//!
//! [`PostgresBackend::from_pool`] uses a deadpool pool of your own, with its TLS.
//! [`PostgresBackend::check_fence`] lets work in the same database commit only under the lock.
//!
//! # Operations
//!
//! An operation is one SQL statement, committed by itself: one network round trip on a connection that has
//! prepared the statement before. The server's clock decides, read when all waiting is over. A contended acquire
//! takes no lock, waits for nothing and writes nothing. An interrupted operation leaves no transaction open and
//! no connection in the middle of a conversation. If a connection is lost before its answer came, the backend
//! sends the statement again on another connection, and the lock id tells the outcome (an extend is not sent
//! again). So any number of connections may die in the pool unnoticed.
//!
//! # When the server is late
//!
//! The backend gives up a statement that gets no answer within its
//! [timeout](PostgresOptions::with_statement_timeout), and cancels the statement in the background. The
//! connection keeps its place in the pool until the server has answered, and then serves again. So sessions do
//! not pile up in a server that waits for a locked table or an absent standby. At most two connections at a time
//! leave the pool without an answer, each for five minutes at most: if connections have died without a word,
//! the pool has some places again after two seconds. A pool of `n` connections therefore has at most `n + 2`
//! sessions, and one more [while a task waits for a lock](#waiting). This holds as long as statements can be
//! cancelled, and for five minutes otherwise. A server that cannot be reached for half a minute is taken to have
//! no sessions left. While most connections of a pool wait for an answer, operations that find no connection
//! fail with `ServiceUnavailable`.
//!
//! No setting ends the wait of a commit for a standby; it can only be cancelled. The written data stays, as
//! PostgreSQL warns in its log, and the caller is told that the outcome is unknown.
//!
//! # Waiting
//!
//! A waiter hears of a release by another process, and need not poll for it. While a task of this process
//! waits, one connection beside the pool listens (`LISTEN`). The first waiter opens it like a connection of the
//! pool, and it is closed after ten seconds without a waiter.
//!
//! `NOTIFY` takes a lock of the whole server when it commits. So a release sends a `NOTIFY` only if a waiter
//! listens: the listening session holds a shared advisory lock on each key that it waits for, and the release
//! tries to take the same advisory lock exclusively. That costs a release about 3 % of its work in the server,
//! and no round trip. A crash leaves nothing behind.
//!
//! - The advisory lock of a key is `hashtextextended(key, oid of the lock table)`, any number of 64 bits. An
//!   advisory lock of your own has the same number only by chance. Then a release sends a `NOTIFY` that no waiter
//!   needs, and a session that wants the number exclusively waits until the wait for the key is over.
//! - The channel is `syncguard_` and the oid of the lock table. The payload is the number of the
//!   advisory lock. Any role of the database can compute the number of a key that it guesses, and so see in `pg_locks`
//!   whether somebody waits for that key.
//! - No privilege has to be granted. The functions `pg_notify`, `pg_try_advisory_xact_lock` and
//!   `hashtextextended` are open to all roles. If they were revoked, turn signals off.
//! - Each key that a process listens for takes a place in the server's table of locks, which all programs share.
//!   So a process listens for a 64th of `max_locks_per_transaction × max_connections` keys at most, 100 with the
//!   defaults, and never for more than 256. If the server still runs out of places (SQLSTATE 53200), the
//!   process listens for half as many keys from then on. For all other keys together, the listening session sends one
//!   statement each 250 ms. It needs to read the lock table; if its role may not, these waiters poll one by one.
//!
//! A lost signal costs nothing but time, because waiters also poll. They poll without signals while the
//! connection is lost, refused or silent, for releases by the TypeScript library, behind PgBouncer, and over a
//! [pool of your own](PostgresBackend::from_pool), which does not tell how it connects. For the last two,
//! [`with_signals_over`](PostgresOptions::with_signals_over) says where to listen.
//! [`DurabilityReport::signals`] tells if signals work, and the log tells if they fail.
//! [`with_signals`](PostgresOptions::with_signals) turns them off.
//!
//! # Advisory locks of keys
//!
//! Clients that acquire one key come one after the other by the advisory lock `hashtext(key)`, which the TypeScript
//! library takes as well. **Do not take `pg_advisory_lock(hashtext('nightly'))` beside a lock with the key `nightly`**,
//! not even in the work of that lock: nobody can acquire the key meanwhile, and acquires fail with
//! `ServiceUnavailable` after half the statement timeout. Use the form with two numbers, which never meets ours, such as
//! `pg_advisory_lock(7, hashtext('nightly'))`.
//!
//! PostgreSQL lets every role of the database take every advisory lock. Extends do not depend on it as long as the lock
//! lives for another [statement timeout](PostgresOptions::with_statement_timeout), and releases never do. So a holder
//! whose TTL is at least twice the statement timeout (10 s by default) keeps its lock, whoever has the advisory lock.
//! `syncguard doctor` names sessions that hold the advisory lock of a key.
//!
//! # The owner of the tables
//!
//! The owner of the tables decides over all locks, and code on them runs as the role that takes a lock. So tables are
//! refused that belong to somebody else, have code on them that set-up has not made, or let other roles add it: see
//! [`DurabilityRisk`]. Indexes and columns of your own are accepted if they have no expression.
//! [`with_trusted_owner`](PostgresOptions::with_trusted_owner) names an owner whose tables are taken as they are. A role
//! that may read the tables sees keys and lock ids: beware of `ALTER DEFAULT PRIVILEGES … GRANT SELECT`.
//!
//! Each statement checks that its role sees all rows. With row-level security that is on for the role, or with a view in
//! the place of a table, all operations fail with `AuthFailed`: a hidden lock would look free.
//!
//! # Beside the TypeScript library
//!
//! Tables, rows and advisory locks are those of SyncGuard 2.5 for TypeScript; both libraries may share a
//! database, and a fleet. Fences never repeat. Two limits of the TypeScript library remain. It takes the time at the
//! start of its transaction, so a lock that it had to wait for lives shorter than its TTL. And if one of its
//! clients extends a lock at the last moment, even a lock that this crate acquired, another TypeScript client can
//! overwrite that lock. Extends of this crate are safe. Both quote the names of tables in their operations, so
//! `App_Locks` is the table `"App_Locks"` for both; the set-up of the TypeScript library makes `app_locks` of it, which
//! its own operations do not find. If `app_locks` is there as well, all work is refused: a process of an earlier build would
//! use it, and a key could have two holders.
//!
//! The lock table has one column more than TypeScript's, `holder`: the fence of the lock, a space, the label of the
//! [holder](contract::Holder), and the note after a line break if there is one. TypeScript leaves the column
//! unchanged, so it counts only if its fence is the fence of the row. [`setup_schema`] leaves tables without the column
//! alone, unless [`with_schema_upgrade`](PostgresOptions::with_schema_upgrade) asks for it. Without the column, locks have no
//! holders, and waiters do not know which holders only poll.
//!
//! # Behind PgBouncer
//!
//! Session mode needs no option of this crate, nor does a PgBouncer that keeps prepared statements
//! (`max_prepared_statements`, from 1.21 on). Without them, in transaction or statement mode, turn on
//! [`with_unprepared_statements`](PostgresOptions::with_unprepared_statements); no operation needs more than one
//! statement of a session. The server then plans each statement anew.
//!
//! In any mode, the backend does not listen through PgBouncer: waiters poll, unless
//! [`with_signals_over`](PostgresOptions::with_signals_over) shows a way past it. Other processes hear of
//! releases through PgBouncer.
//!
//! Use PgBouncer 1.21 or later. Earlier versions can pass on the answer to another client's statement. Each answer
//! repeats the id of its lock, so a wrong answer never grants a lock. But an operation can fail with
//! `ServiceUnavailable` and an unknown outcome, and a lock whose grant went astray stays for its TTL.
//!
//! In any mode, set PgBouncer's `server_login_retry` to 1 and its `query_wait_timeout` below the statement
//! timeout. After a failed log-in to the server, PgBouncer refuses all clients for the `server_login_retry`, 15 s
//! by default; the error is then `ServiceUnavailable`, and nothing was carried out.
//!
//! A statement that is given up in a pool without prepared statements is cancelled only if
//! [`with_cancel_requests`](PostgresOptions::with_cancel_requests) says so. If several PgBouncer processes share an
//! address, they need `peers`, or a request to cancel may reach the wrong process.
//!
//! # Durability
//!
//! Writing statements commit with `synchronous_commit = on` at least, whatever the session has. The
//! [`DurabilityReport`] shows other settings that can make a database forget a lock.
//!
//! **A full disk** of the server does not end held locks at once, and no setting of this library can do more: a renewal
//! reuses the rows that vacuum has freed, and a release always works while the server runs. In a table that vacuum has
//! never visited, some 250 renewals fit, and the next ones fail with `ServiceUnavailable` (53100). When the last file of
//! the server's log (16 MB) is full, after some 30 000 renewals, PostgreSQL itself stops until it has room again. So watch the
//! disk of the server, and keep its log (`pg_wal`) on a disk of its own.
//!
//! # In logs
//!
//! Neither this crate nor its driver logs a key, a lock id or a password, at any level:
//! tokio-postgres logs the parameters of statements at `DEBUG`, and the parameters of this crate print as `_`.
//! Errors of the server are passed on as their SQLSTATE alone, because a trigger can put a row's values into the
//! text. The driver logs notices and warnings of the server at `INFO`; the sessions of
//! [`connect`](PostgresBackend::connect) ask for none. Over a pool of your own, or with unprepared statements,
//! notices of a trigger on the lock table should not name keys, or the role should have
//! `client_min_messages = error`.
//!
//! The server has a log of its own: settings such as `log_statement` and `log_parameter_max_length_on_error`
//! put parameters there, and so keys and lock ids.
//!
//! # Upkeep
//!
//! Each acquire and release leave a dead row. [`setup_schema`] lets autovacuum remove dead rows after every
//! 1000, but autovacuum looks only once per `autovacuum_naptime`, a setting of the server, by default a minute.
//! With thousands of acquires a second, set it to one second: then the tables stay within 3 times the size of
//! their live rows (for 1000 keys, 0.5 MB live and 1.5 MB in all). With a minute, the dead rows of a minute are
//! added (16 MB at 2000 a second). Besides, PostgreSQL once adds up to 20 empty pages for each session that waits
//! for a table to be extended: with 8 connections, 20 tasks and new keys, the same tables took up to 2.8 MB.
//!
//! Rows of the fence table are never deleted; each key costs one row for ever.
//!
//! # More
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has core concepts, fenced
//! writes for PostgreSQL, the checklist for production, and alerts.

// On docs.rs, each item shows the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-postgres/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod backend;
mod busy;
mod cancel_request;
mod check_fence;
mod config;
mod connect;
mod connection;
mod dial;
mod durability;
mod elsewhere;
mod error;
mod extend;
mod health;
mod inner;
mod is_locked;
mod listing;
mod lookup;
mod names;
mod pool;
mod poolers;
mod record;
mod release;
mod resent_acquires;
mod risk;
mod schema;
mod settings;
mod settle;
mod signals;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod simulated;
mod statements;
#[cfg(feature = "tls")]
mod tls;
mod url;

pub use syncguard_core::*;
pub use {deadpool_postgres, tokio_postgres};

pub use self::backend::{PostgresBackend, setup_schema};
pub use self::check_fence::{CheckFenceError, check_fence_sql};
pub use self::config::PostgresOptions;
pub use self::durability::DurabilityReport;
pub use self::risk::DurabilityRisk;
pub use self::schema::schema_sql;

// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
