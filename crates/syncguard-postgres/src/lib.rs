//! PostgreSQL backend of SyncGuard: distributed locks with fencing tokens in two tables of a
//! database you already have. PostgreSQL 13 or newer.
//!
//! Everything of the contract is re-exported here, so this crate is all a PostgreSQL user needs.
//!
//! ```toml
//! [dependencies]
//! syncguard-postgres = { version = "0.1", features = ["tls"] } # without `tls` for plain text alone
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
//!     // … the job is ours; `held.fence()` goes along with every write …
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! All options can stand in the URL, as in
//! `postgres://app:secret@db.example/app?setup_schema=true&lock_table=ops.locks`:
//! [`PostgresBackend::connect`] has the table.
//!
//! Over a deadpool pool of your own, with whatever TLS it uses: [`PostgresBackend::from_pool`]. To let
//! work in the same database commit only under the lock: [`PostgresBackend::check_fence`].
//!
//! # What an operation is
//!
//! One SQL statement, committed by itself: one network round trip on a connection that has seen the
//! statement before. The server's clock decides, read when all waiting is over. A contended acquire
//! takes no lock, waits for nothing and writes nothing; an interrupted operation leaves neither a
//! transaction open nor a connection in mid-conversation. If a connection is lost before its answer
//! came, the statement is sent again on another one, and the lock id tells what happened; connections
//! that died in the pool are survived that way, however many they are.
//!
//! # When the server is late
//!
//! A statement that gets no answer within its
//! [timeout](PostgresOptions::with_statement_timeout) is given up, and cancelled in the background. Its
//! connection keeps its place in the pool until the server has answered, and then serves again; so
//! sessions do not pile up in a server that a locked table or an absent standby holds up. At most two
//! connections at a time leave the pool unanswered, each for five minutes at most, so that some places
//! are there again after two seconds where connections have died without a word. A pool of `n`
//! connections therefore has at most `n + 2` sessions, and one more [while somebody waits](#waiting), for as long as statements can be cancelled or
//! five minutes otherwise; a server that is out of reach for half a minute is taken to have none left.
//! While most of a pool waits like that, operations that find no connection fail with
//! `ServiceUnavailable`.
//!
//! A commit that waits for a standby can only be cancelled, no setting ends its wait. What it wrote
//! stays, as PostgreSQL warns in its log, and its caller is told that the outcome is unknown.
//!
//! # Waiting
//!
//! Whoever waits for a lock hears of its release by another process, and need not poll for it. While
//! anybody of this process waits, one connection beside the pool listens (`LISTEN`). It is opened like
//! those of the pool when the first one waits, and closed when nobody has for ten seconds.
//!
//! `NOTIFY` takes a lock of the whole server when it commits. So a release sends one only if somebody waits:
//! the session that listens holds an advisory lock on each key that it waits for, shared, and the release
//! tries the same one exclusively in passing. That costs a release nothing but about 3 % of its work
//! in the server, and no round trip. A crash leaves nothing of it behind.
//!
//! - The advisory lock of a key is `hashtextextended(key, oid of the lock table)`, any number of 64 bits.
//!   One of your own meets it by chance alone. Then a release sends a `NOTIFY` that nobody needs; and whoever
//!   wants that number exclusively waits until the wait for the key is over.
//! - The channel is `syncguard_` and the oid of the lock table. What is sent is that number, and nothing of the
//!   key.
//! - Nothing has to be granted for it. The functions `pg_notify`, `pg_try_advisory_xact_lock` and
//!   `hashtextextended` are open to all, unless somebody has revoked them; then turn signals off.
//! - Each key that a process listens for takes a place in the server's table of locks, which all programs share. So
//!   a process listens for a 64th of `max_locks_per_transaction × max_connections` keys at most, 100 with the
//!   defaults, and never for more than 256. If the server runs out of places all the same (SQLSTATE 53200), the
//!   process listens for half as many from then on. Waiters for other keys poll.
//!
//! A signal can be lost, and nothing but time with it: whoever waits also polls. So waiting goes on
//! without signals while the connection is lost, refused or silent, for releases by the TypeScript library,
//! behind PgBouncer, and over a [pool of your own](PostgresBackend::from_pool), which does not say how it
//! connects. For the last two, [`with_signals_over`](PostgresOptions::with_signals_over) says where to listen.
//! [`DurabilityReport::signals`] tells whether signals work, and the log when they do not.
//! [`with_signals`](PostgresOptions::with_signals) turns them off.
//!
//! # Beside the TypeScript library
//!
//! Tables, rows and advisory locks are those of SyncGuard 2.5 for TypeScript; both may share a
//! database, and a fleet. Fences never repeat. What remains is the other library's own: it takes the time at its transaction's start, so a lock that it had to wait
//! for is born shorter than its TTL. And if one of its clients extends a lock in the last moment, also one
//! that was taken here, another one of them can overwrite that lock. Extends of this crate are safe.
//!
//! The lock table has one column more than TypeScript's, `holder`: the fence of the lock, a space, the label of the
//! [holder](contract::Holder), behind a tab if the process hears no signals, and behind a line break the note if there
//! is one. TypeScript and older versions of
//! this crate leave the column as it is, so it counts only where its fence is that of the row. [`setup_schema`]
//! adds the column where the role owns the table. Without the column, locks have no holders and nothing else is different.
//!
//! # Behind PgBouncer
//!
//! In session mode everything works as it is. In transaction or statement mode turn on
//! [`with_unprepared_statements`](PostgresOptions::with_unprepared_statements); nothing here needs
//! more than one statement of a session. It costs the server the planning of each statement.
//!
//! In any mode nothing is listened for through PgBouncer: waiters poll, unless
//! [`with_signals_over`](PostgresOptions::with_signals_over) shows a way past it. Releases through it are
//! heard by others.
//!
//! Use PgBouncer 1.21 or later. Earlier versions can pass on the answer to another client's statement. Each answer
//! repeats the id of the lock that it is about, so such an answer never grants a lock; but an operation can fail
//! with `ServiceUnavailable` and an unknown outcome, and a lock that nobody heard of stays for its TTL.
//!
//! In any mode, set PgBouncer's `server_login_retry` to 1 and its `query_wait_timeout` below the statement
//! timeout. While the first is running PgBouncer refuses everybody after a failed log-in to the server,
//! for 15 s by default; the error is then `ServiceUnavailable`, and nothing was carried out.
//!
//! PgBouncer passes cancellations on. Several of them behind one address need its `peers`, or a
//! cancellation may reach the wrong one. Over a pool of your own there are none through a pooler, unless
//! you say where it is: [`with_cancel_requests`](PostgresOptions::with_cancel_requests).
//!
//! # Durability
//!
//! Writing statements commit with `synchronous_commit = on` at least, whatever the session has.
//! What else can make a database forget a lock is in the [`DurabilityReport`].
//!
//! # In logs
//!
//! Neither this crate nor its driver logs a key, a lock id or a password, at any level:
//! tokio-postgres logs the parameters of statements at `DEBUG`, and those of this crate print as
//! `_`. Of an error that the server sends, only the SQLSTATE is passed on, because a trigger can put a
//! row's values into its text. The driver logs notices and warnings of the server at `INFO`; the sessions of
//! [`connect`](PostgresBackend::connect) ask for none. Over a pool of your own, or with unprepared
//! statements, a trigger on the lock table that raises some should not name keys, or the role should have
//! `client_min_messages = error`.
//!
//! What the server writes to its own log is the server's: settings such as `log_statement`
//! and `log_parameter_max_length_on_error` put parameters there, and so keys and lock ids.
//!
//! # Upkeep
//!
//! Every lock that comes and goes leaves a dead row. [`setup_schema`] lets autovacuum clear them away
//! after every 1000, but autovacuum looks only once per `autovacuum_naptime`, a setting of the server
//! and by default a minute. Where thousands of locks come and go each second, set it to one second: then
//! what a second leaves stays within 3 times the size of what lives in the tables (for 1000 keys, 0.5 MB
//! live and 1.5 MB in all). With a minute, what a minute leaves is there in between (16 MB at 2000 a
//! second). Besides, PostgreSQL adds up to 20 empty pages for each session that waits for a table to be
//! extended, once: with 8 connections, 20 tasks and new keys, the same tables took up to 2.8 MB.
//!
//! Rows of the fence table are never deleted; each key costs one for ever.
//!
//! # More
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has core concepts, fenced
//! writes for PostgreSQL, the checklist for production, and alerts.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-postgres/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod backend;
mod cancel_request;
mod check_fence;
mod config;
mod connect;
mod connection;
mod doubtful;
mod drain;
mod durability;
mod error;
mod extend;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
mod inner;
mod is_locked;
mod listing;
mod lookup;
mod names;
mod pool;
mod record;
mod release;
mod schema;
mod settings;
mod settle;
mod signals;
mod sql_fence;
mod statements;
#[cfg(feature = "tls")]
mod tls;
mod url;

pub use syncguard_core::*;
pub use {deadpool_postgres, tokio_postgres};

pub use self::backend::PostgresBackend;
pub use self::cancel_request::CancelStream;
pub use self::check_fence::{CheckFenceError, check_fence_sql};
pub use self::config::PostgresOptions;
pub use self::durability::{DurabilityReport, DurabilityRisk};
pub use self::schema::{schema_sql, setup_schema};
pub use self::sql_fence::SqlFence;

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
