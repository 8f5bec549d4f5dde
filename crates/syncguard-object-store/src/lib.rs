//! Backend of SyncGuard on a bucket: distributed locks with fencing tokens where there is only an object store.
//!
//! The crate re-exports the whole contract, so a user of a bucket needs no other crate.
//!
//! ```toml
//! [dependencies]
//! syncguard-object-store = { version = "0.1", features = ["aws"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use syncguard_object_store::{LockConfig, ObjectStoreBackend, lock};
//!
//! # async fn run() -> Result<(), syncguard_object_store::LockError> {
//! let backend = ObjectStoreBackend::connect("s3://my-bucket/locks").await?;
//! let nightly = LockConfig::new("job:nightly").with_ttl(Duration::from_secs(60));
//! lock(&backend, nightly, async |held| {
//!     // … the job is ours; `held.fence()` goes along with every write …
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The URL can set all options: [`ObjectStoreBackend::connect`] has the table. [`ObjectStoreBackend::from_store`] takes any
//! store of the crate [`object_store`] that has writes with conditions.
//!
//! # What an operation costs
//!
//! | operation | requests |
//! |---|---|
//! | acquire | 2 for a key that this backend released last, else 3: read the key, write it, write the index entry of the lock id |
//! | acquire of a held key | 1 read, and nothing is written |
//! | release | 2 for a lock this backend took or extended last: write the key, delete the index entry; else 1 read more with the key, 2 by the lock id alone |
//! | extend | 1 write, and the same reads more |
//! | `is_locked`, lookup by key | 1 read |
//! | lookup by lock id | 1 read with the key, else 2 |
//! | a page of a listing | 1 list, and 1 read for each key |
//!
//! Besides, a backend that is used asks for the time, at most nine times a minute, and checks the store once.
//!
//! # Whose clock counts
//!
//! The store's. Each answer has a `Date` in whole seconds; requests at the right moments narrow that to some 60 ms. A store
//! that the program hands in shows no `Date`: then the last change of an object that this backend has just written tells the
//! time. Between answers the time goes on by a clock of this machine that nobody sets, in bounds that widen by 2 ms a second. A
//! lock of another holder is over when the earliest possible time is behind its expiry and the tolerance of a second, and
//! expiries are counted from the latest possible time. A store that tells no time gives out no locks.
//!
//! # How a lock is stored
//!
//! `prefix/k/key` is JSON: the key, the fence counter, the lock if there is one, a revision that grows with each
//! write and a random text that no other write has. It is overwritten and **never deleted**, so fences never go back. Each write
//! states the tag of the state that it replaces: `If-Match`, or a generation on Google. So a write that arrives long after its
//! sender has given it up does nothing, once the object was written since: [`authoring::conditional`] says more. An acquire
//! that no caller wants any more is made void by one write.
//!
//! `prefix/i/hash of the lock id` has the key of a lock, for releases and extends that know only the lock id. It is written
//! behind the lock and deleted behind the release. There is no transaction over two objects: after a crash, or an answer that was
//! lost, an entry may stay. It leads to a lock with another id and harms nobody.
//!
//! # What the store needs
//!
//! - **Conditions on writes that it heeds.** The backend checks that before its first lock and refuses a store that ignores
//!   them; [`check_conditions`](ObjectStoreBackend::check_conditions) checks more.
//! - **The objects below `prefix/k/`**, one for each key for ever: if one is deleted, its fences repeat. No rule of the bucket
//!   may delete or restore them. A rule may delete what is below `prefix/i/` and older than the longest lock, and below
//!   `prefix/c/`.
//! - On a bucket with versions or soft delete, a rule that deletes old versions: each write leaves one.
//! - The rights to read, write, delete and list objects. Without the right to list, S3 answers to a read of a missing object
//!   that access is denied, and then no key can be locked for the first time.
//! - On Google, no more than one write a second to an object: a key serves one cycle in two seconds.
//!
//! # In logs
//!
//! Neither this crate nor `object_store`, reqwest or hyper logs a key, a lock id or a credential, at any level. Names of objects
//! have the keys, which a store and a proxy may log, and no lock ids. Errors have no texts of the driver.
//!
//! # More
//!
//! The guide (module `guide` of the `syncguard` crate) has a page on object stores, core concepts, and the checklist for
//! production.

#![doc(html_root_url = "https://docs.rs/syncguard-object-store/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backend;
mod client;
mod clock;
mod conditions;
mod config;
mod connect;
mod error;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
mod health;
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
mod http;
mod layout;
mod record;
mod store;
mod url;

pub use object_store;
pub use syncguard_core::diagnostics::ClockDrift;
pub use syncguard_core::*;

pub use self::backend::ObjectStoreBackend;
pub use self::conditions::ConditionReport;
pub use self::config::ObjectStoreOptions;

// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
