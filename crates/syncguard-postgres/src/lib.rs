//! PostgreSQL backend of SyncGuard: distributed locks with fencing tokens in two tables of a
//! database you already have. PostgreSQL 13 or newer.
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
//! Over a deadpool pool of your own, with whatever TLS it uses: [`PostgresBackend::new`]. To let
//! work in the same database commit only under the lock: [`PostgresBackend::check_fence`].
//!
//! # What an operation is
//!
//! One SQL statement, committed by itself: one network round trip on a connection that has seen the
//! statement before. The server's clock decides, read when all waiting is over. A contended acquire
//! takes no lock, waits for nothing and writes nothing; an interrupted operation leaves neither a
//! transaction open nor a connection in mid-conversation. If a connection is lost before its answer
//! came, the statement is sent once more on another one, and the lock id tells what happened.
//!
//! # Beside the TypeScript library
//!
//! Tables, rows and advisory locks are those of SyncGuard 2.5 for TypeScript; both may share a
//! database, and a fleet. Two holders or a repeated fence cannot come of that. What remains is the
//! other library's own: it takes the time at its transaction's start, so a lock that it had to wait
//! for is born shorter than its TTL.
//!
//! # Behind PgBouncer
//!
//! In session mode everything works as it is. In transaction or statement mode turn on
//! [`with_unprepared_statements`](PostgresOptions::with_unprepared_statements); nothing here needs
//! more than one statement of a session. It costs the server the planning of each statement.
//!
//! # Durability
//!
//! Writing statements commit with `synchronous_commit = on` at least, whatever the session has.
//! What else can make a database forget a lock is in the [`DurabilityReport`].
//!
//! # Upkeep
//!
//! [`setup_schema`] makes autovacuum come after every 1000 dead rows. Rows of the fence table are
//! never deleted; each key costs one for ever.
//!
//! # More
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has core concepts, fenced
//! writes for PostgreSQL, the checklist for production, and alerts.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod backend;
mod check_fence;
mod config;
mod connect;
mod durability;
mod error;
mod extend;
mod is_locked;
mod lookup;
mod record;
mod release;
mod schema;
mod session;
mod statements;
mod tables;
#[cfg(feature = "tls")]
mod tls;
mod wanted;

pub use syncguard_core::*;
pub use {deadpool_postgres, tokio_postgres};

pub use self::backend::PostgresBackend;
pub use self::check_fence::CheckFenceError;
pub use self::config::PostgresOptions;
pub use self::connect::PoolOptions;
pub use self::durability::{DurabilityReport, DurabilityRisk};
pub use self::schema::{schema_sql, setup_schema};
