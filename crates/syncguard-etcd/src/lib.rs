//! etcd backend of SyncGuard: distributed locks with fencing tokens in a cluster that forgets nothing in a failover.
//!
//! The crate re-exports the whole contract, so an etcd user needs no other crate.
//!
//! ```toml
//! [dependencies]
//! syncguard-etcd = { version = "0.1", features = ["tls"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use syncguard_etcd::{EtcdBackend, LockConfig, lock};
//!
//! # async fn run() -> Result<(), syncguard_etcd::LockError> {
//! let backend = EtcdBackend::connect("etcd://etcd-1,etcd-2,etcd-3").await?;
//! let nightly = LockConfig::new("job:nightly").with_ttl(Duration::from_secs(60));
//! lock(&backend, nightly, async |held| {
//!     // … the job is ours; `held.fence()` goes along with every write …
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The URL can set all options, as in `etcds://user:password@etcd-1:2379,etcd-2:2379/apps/locks?strict_clock=true`:
//! [`EtcdBackend::connect`] has the table. etcd 3.4 or later serves it.
//!
//! # Whose clock counts
//!
//! That of a majority of the members. etcd's calls tell no time, so the backend asks each member of the URL for its status over
//! HTTP, on the address for clients. The answer has a `Date` in whole seconds; requests at the right moments narrow this to
//! some 40 ms within six seconds. The first operation waits for one answer of a majority. While the backend is used, it asks
//! each member once or twice in 25 s, and at most nine times; an idle backend asks nothing. Between answers the time goes on by
//! a clock of this machine that nobody sets, in bounds that widen by 2 ms a second.
//!
//! A lock of another holder is over when the earliest possible time is behind its expiry and the tolerance of a second, and
//! expiries are counted from the latest possible time. So what is not known exactly delays others, and never makes two
//! holders. The clocks of a minority of the members may be wrong: the log names them.
//!
//! Where fewer than half of the members tell their time, because a proxy lets no HTTP through, this machine's clock counts, and
//! the log has a warning. With [`with_strict_clock`](EtcdOptions::with_strict_clock) the backend then takes no lock, but still
//! releases, extends and reads.
//!
//! # What an operation costs
//!
//! | operation | calls |
//! |---|---|
//! | acquire | 1 for a key that this backend released last, else 2: read lock and counter, write both |
//! | acquire of a held key | 1, and nothing is written |
//! | release, extend | 1 for a lock this backend took or extended last, else 2 with the key, 3 by the lock id alone |
//! | `is_locked`, lookup by key | 1 |
//! | lookup by lock id | 1 with the key, else 2 |
//!
//! A read is linearizable. A transaction whose conditions do not hold costs what a write costs.
//!
//! # How a lock is stored
//!
//! A lease should end by itself, and it does not end when it should: a leader that was stopped and continues revokes leases
//! that its successor has renewed, and the death of a leader lets leases live for up to 33 seconds more. So a lock is a
//! record with its expiry, and every write is a transaction with conditions on **every** record that the decision was based
//! on. `prefix/l/key` is the lock, as JSON. `prefix/f/key` is the fence counter, 15 digits that only grow. `prefix/i/lock id`
//! has the key of a lock. A condition compares the revision and the value, since a snapshot that is restored gives revisions
//! out a second time.
//!
//! Because of its conditions, a transaction that arrives long after its sender has given it up needs no deadline:
//! [`authoring::conditional`] says why. An acquire that no caller wants any more ends in the background: the backend deletes
//! its lock, or raises the counter by one. So fences grow, but may skip numbers.
//!
//! # Members
//!
//! Each member has a channel of its own, and one member serves all calls. If it is dead, silent for a whole request, a
//! learner, without a leader, or of another cluster, the backend goes on to the next one at once. An operation is tried again until its
//! [operation timeout](EtcdOptions::with_operation_timeout), which is longer than an election.
//!
//! # What the cluster needs
//!
//! - **Auto-compaction**, which is off by default: some three million cycles fill the default quota of 2 GB, and then the
//!   cluster refuses writes.
//! - **Three or five members.** A single one loses its locks with its disk.
//! - **The counters** below `prefix/f/`, one for each key for ever: if one is deleted, fences repeat. After a snapshot was
//!   restored, raise them, because locks of the time after the snapshot are forgotten.
//! - In a cluster with users, a role with `readwrite` on the names that begin with `prefix/`.
//!
//! `syncguard doctor` checks these points, and the guide's page on etcd has the commands.
//!
//! # In logs
//!
//! Neither this crate nor tonic, hyper or h2 logs a key, a lock id, a password or a token, at any level: they describe calls
//! and frames, not their contents.
//!
//! # More
//!
//! The guide (module `guide` of the `syncguard` crate) has core concepts, the checklist for production, and alerts.

#![doc(html_root_url = "https://docs.rs/syncguard-etcd/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backend;
mod client;
mod clock_probe;
mod config;
mod connect;
mod error;
mod health;
mod layout;
mod members;
mod record;
mod report;
mod service;
mod signals;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod simulated;
mod store;
#[cfg(feature = "tls")]
mod tls_channel;
#[cfg(feature = "tls")]
mod tls_probe;
mod txn;
mod url;
mod wire;

pub use syncguard_core::diagnostics::ClockDrift;
pub use syncguard_core::*;

pub use self::backend::EtcdBackend;
pub use self::config::EtcdOptions;
pub use self::report::{ClusterReport, MemberReport};

// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
