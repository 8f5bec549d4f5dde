//! SQLite backend of SyncGuard: locks with fencing tokens for the processes of one machine, in one file and
//! without a server.
//!
//! For cron jobs, test runners, desktop and edge programs. Everything of the contract is re-exported here,
//! so this crate is all that is needed. SQLite itself is built in.
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
//!     // … the job is ours, whichever process asks; `held.fence()` goes along with every write …
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The file
//!
//! It is made with mode 0600, in a folder that must exist, and SQLite keeps two more beside it while it is
//! open: `-wal` and `-shm`. All of them belong together.
//!
//! - It must be on a **local disk**. Network file systems and FUSE are refused: processes do not see each
//!   other's locks there.
//! - **Never delete, replace or rename** it while a program has it open. A program that had it open notices,
//!   and every operation fails with `Internal` until the program is started again. A program that comes later
//!   finds a new file: its locks are free, and its fences start anew.
//! - **Never copy** it while it is in use, and never read it inside a program that has it open: closing it
//!   again would end the locks that SQLite has on it. `sqlite3 locks.db "VACUUM INTO 'backup.db'"` makes a
//!   backup. A backup that is put back brings old fences back.
//! - It has one name: hard links are refused.
//! - It grows by a counter for each key that was ever locked, which is the key and some 20 bytes, and by
//!   nothing else that stays. The log beside it has some 4 MB, and 16 MB while many processes write at once.
//!   After a million cycles of 100 keys the file has 28 KB.
//!
//! The column `holder` has the fence of the lock, a space, the label of the [holder](contract::Holder), and behind a
//! line break the note if there is one. The first version of this crate does not know the column, shares the file all
//! the same, and leaves the column as it is: it counts only where its fence is that of the row.
//!
//! # Time
//!
//! On Linux a lock lives by the boot clock: setting the wall clock ends no lock and lets none live longer,
//! and time goes on while the machine sleeps. After a restart of the machine the locks of before are over.
//! [`LockInfo`] and other answers show times of the wall clock, as it was when the lock was taken.
//!
//! On other systems, and between containers that each have a boot id of their own (systemd-nspawn, LXC),
//! the wall clock decides: setting it forward ends locks early, setting it back lets them live longer.
//!
//! # What an operation is
//!
//! One transaction of its own, or together with others that wait at the same time: each is decided by itself,
//! and told when it is written. A thread does that; no asynchronous one ever waits for the disk.
//! Contention writes nothing, and keeps nobody from writing. An operation that was not begun within the
//! [operation timeout](SqliteOptions::with_operation_timeout), or whose caller has gone, is not carried out
//! at all.
//!
//! Any program that is stopped in the middle of a transaction keeps the others from writing, for as long as it
//! is stopped. Their operations then fail with `ServiceUnavailable` when the timeout is over, and nothing
//! of them was done. If it is killed, the others go on at once.
//!
//! # Durability
//!
//! A lock that was handed out is on the disk (`synchronous=FULL`), so a power cut takes no fence back. What
//! else can make the file forget a lock is in the [`DurabilityReport`].
//!
//! A release and an extend outlive any crash of programs. On Linux they do not wait for the disk: a power cut
//! may take the last of them back, but it ends the boot, and with it every lock that was taken in it. A
//! machine that has no clock of its own, and starts again with a time that has been, cannot tell: there a
//! lock whose release was taken back lives until its TTL is over. On other systems they wait for the disk.
//!
//! # Fork
//!
//! A child process that was forked, and runs on in the same program, can use no lock file if its parent
//! had one open: each operation says so. Open files after the fork. Children that run a program of their
//! own (`Command`) are not concerned.
//!
//! # More
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has core concepts, the
//! choice of a store, and the checklist for production.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-sqlite/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod awake;
mod backend;
mod clock;
mod config;
mod durability;
mod error;
mod extend;
mod file;
mod file_system;
mod fork;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "test-util")]
mod gate;
mod inner;
mod is_locked;
mod job;
mod jobs;
mod level;
mod listing;
mod lookup;
mod mounted;
mod open;
mod operation;
mod pauses;
mod record;
mod release;
mod schema;
mod settings;
mod store;
mod url;
mod watches;
mod writer;

pub use syncguard_core::*;

pub use self::backend::SqliteBackend;
pub use self::config::{SqliteOptions, Synchronous};
pub use self::durability::{DurabilityReport, DurabilityRisk};
#[cfg(feature = "test-util")]
pub use self::gate::Gate;

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
