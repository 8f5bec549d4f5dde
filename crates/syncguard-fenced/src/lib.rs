//! Fenced writes: data that remembers the highest fence it was written under, and refuses a lower one.
//!
//! A holder that stalls can write after its lock has passed on. No lock can prevent that; the data can. This crate has
//! the statements, the script and the conditions for it. The locks may be in any store, the data in another one, behind
//! any driver: the crate sends nothing.
//!
//! | the data is in | use |
//! |---|---|
//! | PostgreSQL, MySQL, MariaDB, SQLite | a [`FenceStatement`], first in your transaction: [`for_rows`](FenceStatement::for_rows) for a table of fences, [`for_column`](FenceStatement::for_column) for a column of your own table |
//! | Redis, Valkey | [`redis::SCRIPT`], which compares the fence and runs your commands |
//! | Firestore, an object store, anything with conditional writes | [`precondition`] |
//!
//! The rules are the same everywhere. A fence at least as high as the stored one may write, so one holder may write many
//! times. A lower one gets a [`StaleFence`]. Compare and write are one step: one transaction, one script, or one write
//! with a condition.
//!
//! For data in the same PostgreSQL database as the locks there is another way, `check_fence` of `syncguard-postgres`. It
//! needs no fence in the data, since it locks the record of the lock itself until the commit.
//!
//! # SQL
//!
//! ```
//! use syncguard_fenced::{Dialect, FenceStatement, create_table};
//!
//! // For a migration.
//! let create = create_table(Dialect::Postgres, "app.fences")?;
//! // Once in the program.
//! let statement = FenceStatement::for_rows(Dialect::Postgres, "app.fences")?;
//! # Ok::<(), syncguard_fenced::LockError>(())
//! ```
//!
//! Then, with tokio-postgres:
//!
//! ```text
//! let transaction = client.transaction().await?;
//! let row = transaction.query_one(statement.sql(), &[&"account:1", &fence.as_i64()]).await?;
//! check(fence, row.get::<_, i64>(0))?;          // an error drops, and so rolls back, the transaction
//! // … read and write the account …
//! transaction.commit().await?;
//! ```
//!
//! **The statement comes first in the transaction**, before the work reads anything. It locks the row until the
//! transaction ends, so the transactions of one resource run one after the other, and reads after it see all that earlier
//! holders have committed.
//!
//! | | isolation | if two transactions meet |
//! |---|---|---|
//! | PostgreSQL | read committed | the second one waits, then sees what the first one committed |
//! | | repeatable read, serializable | the second one waits, and fails with SQLSTATE 40001 if the first one commits: repeat the transaction |
//! | MySQL, MariaDB | all | the second one waits; a deadlock is error 1213, and MariaDB can answer 1020: repeat the transaction |
//! | SQLite | serializable | the second one waits for its busy timeout; `SQLITE_BUSY` after that: repeat the transaction |
//!
//! A repeated transaction begins with the statement again, with the same fence.

#![doc(html_root_url = "https://docs.rs/syncguard-fenced/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod condition;
mod dialect;
mod name;
pub mod redis;
mod sql;
mod stale;

pub use syncguard_core::{Fence, LockError};

pub use self::condition::{METADATA, Precondition, precondition};
pub use self::dialect::Dialect;
pub use self::sql::{FenceStatement, Parameter, create_table};
pub use self::stale::{StaleFence, check};

// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
