//! Cloud Firestore backend of SyncGuard: distributed locks with fencing tokens in two collections of a database you already
//! have.
//!
//! The crate re-exports the whole contract, so a Firestore user needs no other crate.
//!
//! ```toml
//! [dependencies]
//! syncguard-firestore = "0.1"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use syncguard_firestore::{FirestoreBackend, LockConfig, lock};
//!
//! # async fn run() -> Result<(), syncguard_firestore::LockError> {
//! let backend = FirestoreBackend::connect("firestore://my-project").await?;
//! let nightly = LockConfig::new("job:nightly").with_ttl(Duration::from_secs(60));
//! lock(&backend, nightly, async |held| {
//!     // … the job is ours; `held.fence()` goes along with every write …
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The URL can set all options, as in `firestore://my-project?collection=app_locks`: [`FirestoreBackend::connect`] has the
//! table.
//!
//! The backend uses Google's application default credentials. If the environment has `FIRESTORE_EMULATOR_HOST`, or with
//! [`with_emulator`](FirestoreOptions::with_emulator), it connects to the emulator instead.
//! [`FirestoreBackend::from_client`] takes a client of [`gcloud_sdk`] that the program already has.
//!
//! # Whose clock counts
//!
//! Google's. A write to Firestore cannot use the server's clock, but each response tells it, to the microsecond and to
//! within a round trip. Between responses the time goes on by a clock of this machine that nobody sets, in bounds that
//! widen by 2 ms a second. A lock of another holder is over when the earliest possible time is behind its expiry and the
//! tolerance of a second, and expiries are counted from the latest possible time. This machine's wall clock may be wrong
//! and may step.
//!
//! The TypeScript library goes by its machine's clock: where both share locks, those machines need NTP.
//!
//! # What an operation costs
//!
//! | operation | calls |
//! |---|---|
//! | acquire | 2: read lock and counter, commit both |
//! | acquire of a held key | 1, and nothing is written |
//! | acquire that loses a race | 3 or more: read, failed commit, read, … |
//! | release, extend | 1 for a lock this backend took or extended last, else 2: query, commit |
//! | extend that expects another expiry than the stored one | 1, or 2 if another client extended the lock; nothing is written |
//! | `is_locked`, lookup by key, lookup by lock id | 1 |
//!
//! # Why no transactions
//!
//! The specification asks for read-write transactions. With transactions, rivals form a convoy: they lock the documents
//! they read and time out on each other, and the query by lock id locks the whole collection (6 cycles a second for 16
//! workers on *different* keys, in the emulator). An abandoned transaction blocks its documents for a minute.
//!
//! Instead, each operation reads, decides, and sends one atomic commit with a precondition on **every** document that the
//! decision was based on: the document is unchanged since it was read, or still absent. [`authoring::conditional`] says why
//! this is as safe as a transaction, also if a commit arrives long after its sender has given it up. A caller that goes away
//! leaves nothing open. An acquire that no caller wants any more ends in the background: its lock is deleted, or the counter
//! raised by one. So fences grow, but may skip numbers.
//!
//! If a precondition fails, nothing was written. The operation starts over after a pause, within
//! [`with_conflict_retries`](FirestoreOptions::with_conflict_retries) and the [operation
//! timeout](FirestoreOptions::with_operation_timeout), and then fails with `ServiceUnavailable`. Contention is not an
//! error, however hot the key is: an acquire answers `Locked` if rivals took the lock before it four times, or at least
//! once when its retries are used up.
//!
//! For a lock of its own the backend remembers the document and its update time. While the lock is live by this data, release
//! and extend are a single commit with the precondition that the document still has this version. If the precondition
//! fails, or the lock has expired by this data, a query decides.
//!
//! If the answer to an extend is lost with its connection, the backend sends the extend again. The second try may find the
//! expiry that the first one has set, which is a [`Mismatch`](ExtendResult::Mismatch). A guard then extends with that expiry.
//!
//! # Beside the TypeScript library
//!
//! Documents and fields are the same as in SyncGuard 2.5 for TypeScript; both libraries may share a database and a fleet.
//! To a transaction our commits are ordinary writes: Firestore serializes the two, and the second one reads again. Under
//! contention the transactions are the bottleneck: while a transaction has locked a document, our commit on that document
//! waits, up to the request timeout.
//!
//! The document of a lock has two fields that TypeScript does not write. `holder` is the label of the
//! [holder](contract::Holder), empty if labels are turned off. `note` is there if the holder has a note.
//!
//! The id of a document is the key. A key that Firestore refuses as an id (with a slash, `.`, `..`, `__…__`) is hashed
//! instead: 22 base64url characters, padded with `~` to 513 bytes, which is longer than any key. So no two keys share a
//! document, and no key is refused. The TypeScript library refuses most of these keys. It stores a key like `a/b/c` in a
//! subcollection, so the two libraries do **not** share such a key.
//!
//! The backend finds lock ids by a query without a limit. If several documents carry one lock id, the backend logs a
//! warning, and release and extend delete the expired documents. While two of the documents are live, operations by that id
//! answer `Internal` and touch neither. A backend that remembers where its own lock is releases or extends that lock
//! without a look-up.
//!
//! A lock id must never be used for a second key. The backend that took the first lock refuses that with `InvalidArgument`
//! while the lock is live and remembered. Another backend would need a query to find out, and does not make one.
//!
//! # In logs
//!
//! Neither this crate nor gcloud-sdk, tonic, hyper or h2 logs a key, a lock id or a token, at any level: they describe
//! calls and frames, not their contents.
//!
//! # What the database needs
//!
//! - **Native mode**, and the single-field index on `lockId` of the lock collection. Firestore keeps this index by default,
//!   unless it was exempted.
//! - **Never a TTL policy on the fence counters**: a deleted counter starts again at one, and fences repeat. Do not delete
//!   counters by other means either. A TTL policy on the *lock* collection is possible only with a timestamp field, which
//!   these documents do not have. The next holder overwrites an expired lock, and
//!   [`with_cleanup_in_is_locked`](FirestoreOptions::with_cleanup_in_is_locked) deletes expired locks.
//! - The IAM role **`roles/datastore.user`** for the clients. The backend uses these of its permissions:
//!   `datastore.entities.get` and `.list` for reads and queries, `.create`, `.update` and `.delete` for commits.
//!   Transactions would also need `datastore.databases.get`; the backend uses none. Security rules do not apply to such
//!   clients, and should deny both collections to mobile and web clients.
//!
//! Each key costs a counter document for ever. Firestore bills reads, writes and deletes: a cycle of acquire and release is
//! two reads, two writes and a delete. A document takes about one sustained write a second before it gets slower, so one
//! key serves about one cycle a second.
//!
//! # What the crate costs
//!
//! The crate has 179 dependencies, and a first debug build takes a minute and a half of CPU time, most of it for aws-lc and
//! the generated interface of Firestore. TLS is rustls with aws-lc-rs, as in the other backends; neither OpenSSL nor ring
//! is compiled. The backend checks servers against the certificates that the system trusts. On a system without
//! certificates, it checks Firestore against Mozilla's.
//!
//! # More
//!
//! The guide (module `guide` of the `syncguard` crate) has core concepts, a fenced write for Firestore, the checklist for
//! production, and alerts.

#![doc(html_root_url = "https://docs.rs/syncguard-firestore/latest")]
// The other crates build with an older Rust, which lacks these units; all crates should read alike.
#![allow(clippy::duration_suboptimal_units, reason = "as in the other crates")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backend;
mod by_lock_id;
mod client;
mod config;
mod connect;
mod document;
mod error;
mod names;
mod query;
mod service;
mod signals;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod simulated;
mod store;
mod turns;
mod url;

pub use gcloud_sdk;
pub use syncguard_core::diagnostics::ClockDrift;
pub use syncguard_core::*;

pub use self::backend::FirestoreBackend;
pub use self::config::FirestoreOptions;

// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
