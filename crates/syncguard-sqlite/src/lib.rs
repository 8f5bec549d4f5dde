//! SQLite backend of SyncGuard: locks with fencing tokens for the processes of one machine, in one file and
//! without a server.
//!
//! Use it for cron jobs, test runners, desktop and edge programs. The crate re-exports the whole contract,
//! so a SQLite user needs no other crate. SQLite itself is built in.
//!
//! ```toml
//! [dependencies]
//! syncguard-sqlite = "0.1"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use syncguard_sqlite::{LockConfig, SqliteBackend, lock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), syncguard_sqlite::LockError> {
//! let backend = SqliteBackend::open("/var/lib/app/locks.db").await?;
//!
//! let nightly = LockConfig::new("job:nightly").with_ttl(Duration::from_secs(60));
//! lock(&backend, nightly, async |held| {
//!     // … no other process runs the job; `held.fence()` goes along with every write …
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The file
//!
//! The backend creates the file with mode 0600, in a folder that must exist. While the file is open, SQLite
//! keeps two more files beside it: `-wal` and `-shm`. The three files belong together.
//!
//! - The file must be on a **local disk**. The backend refuses network file systems and FUSE: processes do
//!   not see each other's locks there.
//! - **Never delete, replace or rename** the file while a program has it open. Such a program notices the
//!   change, and each of its operations fails with `Internal` until you restart it; a lock that it holds is over with
//!   the next extend, as [`LossReason::RecordLost`]. A program that opens the
//!   path later finds a new file: all keys are free, and fences start again.
//! - **Never copy** the file while it is in use, and never read it inside a program that has it open: closing
//!   the file ends the locks that SQLite has on it. `sqlite3 locks.db "VACUUM INTO 'backup.db'"` makes a
//!   backup. A restored backup brings old fences back.
//! - The file has one name: the backend refuses hard links.
//! - The file grows by a counter for each key that was ever locked, which takes the key and some 20 bytes;
//!   nothing else stays. The log beside it has some 4 MB, and 16 MB while many processes write at once.
//!   After a million cycles of 100 keys the file has 28 KB.
//!
//! The column `holder` has the fence of the lock, a space, and the label of the
//! [holder](contract::Holder). If there is a note, a line break and the note follow. A client that
//! knows no holders leaves the column as it is, so the column is valid only if its fence is the fence of the row.
//!
//! # SQLite beside other crates
//!
//! A program has one `libsqlite3-sys`. This crate takes each rusqlite from 0.39 to 0.43, so it fits beside sqlx 0.9,
//! tokio-rusqlite 0.8, diesel 2.3 and sea-orm 2. The older ones have a SQLite before 3.51.3, which can
//! [lose writes](https://sqlite.org/wal.html#walresetbug) of one of several processes.
//!
//! **sqlx 0.8** wants such a SQLite with its features `sqlite`, `macros` or `migrate`, also if the program uses PostgreSQL
//! alone, and cargo finds no versions ("links to the native library `sqlite3`"). Turn these features off
//! (`default-features = false, features = ["postgres", "runtime-tokio"]`), or take sqlx 0.9. Where neither is possible, let
//! the command `syncguard run` hold the lock. sea-orm 1 builds on sqlx 0.8.
//!
//! # Time
//!
//! On Linux, locks live by the boot clock: setting the wall clock neither ends a lock nor prolongs it, and
//! time goes on while the machine sleeps. A restart of the machine ends all locks. [`LockInfo`] and other
//! answers show times of the wall clock, as it was when the lock was taken.
//!
//! On other systems, and between containers that each have their own boot id (systemd-nspawn, LXC), the wall
//! clock decides: setting it forward ends locks early, and setting it back prolongs them.
//!
//! # What an operation is
//!
//! An operation is a transaction of its own, or shares one with other operations that wait at the same time.
//! Each operation is decided by itself, and is answered after the commit. The backend's own thread does this,
//! so asynchronous threads never wait for the disk. An operation that only finds contention writes nothing
//! and blocks no other writer. An operation that has not begun within the
//! [operation timeout](SqliteOptions::with_operation_timeout) is not carried out at all. Neither is an acquire
//! whose caller has gone before it has begun.
//!
//! A program that is stopped in the middle of a transaction blocks all other writers while it is stopped.
//! Their operations then fail with `ServiceUnavailable` after the timeout, and have changed nothing. If the
//! stopped program is killed, the others continue at once.
//!
//! # Durability
//!
//! A lock that was handed out is on the disk (`synchronous=FULL`), so a power cut takes no fence back. Other
//! risks can make the file forget a lock: [`health`](LockBackend::health) reports those that can be found, opening logs them, and
//! [`with_strict_durability`](SqliteOptions::with_strict_durability) refuses such a file. A disk that reports data as written when
//! it is not, and a file that was restored from a backup, cannot be found.
//!
//! A release or an extend survives any crash of programs. On Linux it does not wait for the disk: a power cut
//! may undo the last releases and extends, but it ends the boot, and with it all locks that were taken in
//! this boot. The exception is a machine without a clock of its own that restarts at an earlier time: there, a
//! lock whose release was undone lives until its TTL is over. On other systems releases and extends wait for
//! the disk.
//!
//! # A full disk
//!
//! Held locks are renewed and released on a full disk, in the space that the log has already. New keys and new files need
//! space, and fail with `ServiceUnavailable`.
//!
//! # Fork
//!
//! A forked child process that runs on in the same program cannot use lock files if its parent had one open:
//! each operation fails with an error that says so. Open files after the fork. This does not concern children
//! that run another program (`Command`).
//!
//! # More
//!
//! The guide (module `guide` of the `syncguard` crate) has core concepts, the choice of a store, and the
//! checklist for production.

// On docs.rs, each item shows the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-sqlite/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod backend;
mod changes;
mod clock;
mod config;
mod connect;
mod durability;
mod error;
mod extend;
mod file;
mod file_system;
mod fork;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod inner;
mod is_locked;
mod listing;
mod lookup;
mod mounted;
mod open_files;
mod operation;
mod other_users;
mod record;
mod release;
mod schema;
mod settings;
mod settle;
mod shortage;
mod signals;
mod store;
mod url;
mod writer;

pub use syncguard_core::*;

pub use self::backend::SqliteBackend;
pub use self::config::{SqliteOptions, Synchronous};

// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
