//! Cloud Firestore backend of SyncGuard: distributed locks with fencing tokens in two collections of
//! a database you already have.
//!
//! Everything of the contract is re-exported here, so this crate is all a Firestore user needs.
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
//! All options can stand in the URL, as in `firestore://my-project?collection=app_locks`:
//! [`FirestoreBackend::connect`] has the table.
//!
//! Credentials are Google's application default ones. With `FIRESTORE_EMULATOR_HOST` in the
//! environment, or [`with_emulator`](FirestoreOptions::with_emulator), it is the emulator instead. A
//! client of [`gcloud_sdk`] that the program already has does as well:
//! [`FirestoreBackend::from_client`].
//!
//! # The clocks of the clients
//!
//! Firestore has no clock to ask in a write, so locks live by the clocks of those who use them.
//! **Every machine needs NTP.** A lock is live until one second after its expiry, which covers what
//! clocks may be apart; beyond that two clients can hold one lock, and only fences tell them apart.
//!
//! Each response carries the server's time, so the drift is measured for nothing, to within a round
//! trip: [`FirestoreBackend::clock_drift`]. From 200 ms on it is warned about, from 500 ms on it is
//! an error in the log, and with [`with_strict_clock`](FirestoreOptions::with_strict_clock) the
//! backend then acquires nothing. It still releases, extends and reads. Where clocks cannot be kept in
//! step, take the Redis or the PostgreSQL backend, whose servers have the time.
//!
//! # What an operation is
//!
//! | operation | calls |
//! |---|---|
//! | acquire | 2: read lock and counter, commit both |
//! | acquire of a held key | 1, and nothing is written |
//! | acquire that loses a race | 3 or more: read, commit in vain, read, … |
//! | release, extend | 1 for a lock this backend took or extended last, else 2: query, commit |
//! | extend of another expiry than the stored one | 1, or 2 if it was extended elsewhere; nothing is written |
//! | `is_locked`, lookup by key, lookup by lock id | 1 |
//!
//! # Why no transactions
//!
//! The specification asks for read-write transactions. A backend on them convoys: contenders lock what
//! they read and time out on each other, and the query by lock id locks the whole collection (6 cycles
//! a second for 16 workers on *different* keys, in the emulator); one that is abandoned blocks its
//! documents for a minute.
//!
//! Instead, each operation reads, decides, and sends one atomic commit with a precondition on **every**
//! document that the decision was based on: unchanged since it was read, or still absent. A commit
//! that succeeds is therefore what a transaction would have been: had anything else come between, a
//! precondition would have failed, because every change moves a document's update time, and never
//! back. Acquire states both the lock and its counter: a lock that was taken and released in between is
//! as absent as before, but the counter has moved. Nothing is left open by a caller that goes away.
//!
//! If a precondition fails nothing was written, and the operation starts over, after a pause, within
//! [`with_conflict_retries`](FirestoreOptions::with_conflict_retries) and the
//! [operation timeout](FirestoreOptions::with_operation_timeout); after that it is `ServiceUnavailable`.
//! But contention is no error, however hot the key is: an acquire that was beaten by others who got
//! the lock, four times or until its retries were used up, answers `Locked`.
//!
//! For a lock of its own the backend remembers the document, its update time and its expiry. While the
//! lock is live by them, release and extend are a single commit on the condition that the document is
//! still that version; so lock id and expiry are still the remembered ones, and the check is the same as
//! after a query. If the condition fails, or the lock is not live as far as is known, the query decides.
//!
//! # Requests that arrive late
//!
//! A commit may be carried out long after its sender has given it up: the network held it back, or the
//! server stopped and goes on. No deadline is needed against that, since its preconditions are about
//! versions, and a version does not come back:
//!
//! - a late acquire fails once the key's counter has moved, or the lock was written;
//! - a late extend fails once a later one was confirmed. A write that changes nothing would leave the
//!   version as it is, so an extend to the very expiry that the lock has sets a millisecond more;
//! - a late release fails once the lock was extended or released, and so frees no successor.
//!
//! That leaves an acquire that nobody wants any more and whose commit may still come, on a key that
//! nobody touches meanwhile. It is ended in the background, with pauses while the database is away. If
//! its lock is there, that is deleted. Else the fence counter is moved on by one, unless it has moved
//! since the acquire read it; then the commit is void, and the key is free for certain. So fences grow,
//! but may leave numbers out. An acquire that was given up before its commit was sent costs nothing.
//!
//! [`ExtendRequest::with_expected_expiry`](contract::ExtendRequest::with_expected_expiry) is compared with the expiry of the document, and the commit
//! states the document's version, so the two are one step. Should the answer to an extend be lost with its
//! connection, the backend sends it again; it may then find the expiry that it has set itself, which is
//! a [`Mismatch`](ExtendResult::Mismatch) as well. A guard then extends that one.
//!
//! # Beside the TypeScript library
//!
//! Documents and fields are those of SyncGuard 2.5 for TypeScript; both may share a database, and a
//! fleet. To a transaction our commits are ordinary writes: Firestore serialises the two, and the
//! second one reads again. Under contention the transactions set the pace: while one has a document
//! locked, our commit on it waits, up to the request timeout.
//!
//! The document of a lock has two fields that TypeScript does not write: `holder`, the label of the
//! [holder](contract::Holder), which is empty if it is turned off and stands behind a tab if the process hears no
//! signals; and `note`, if there is one.
//!
//! A key is its document's id. Keys that cannot be one (with a slash, `.`, `..`, `__…__`) get the
//! hashed form instead: 22 base64url characters, and `~` up to 513 bytes, which is longer than any key. So
//! no two keys share a document, and none is refused. The TypeScript library refuses most of these; a key like
//! `a/b/c` it stores in a subcollection, so such a key is **not** shared with it.
//!
//! Lock ids are found by query, without a limit. Should several documents carry one lock id, that is
//! warned about; release and extend delete the expired ones, and while two are live, operations by
//! that id answer `Internal` and touch neither. A backend that remembers where its own lock is ends or
//! extends that one without a look-up.
//!
//! A lock id must never be used for a second key. The backend that took the first lock refuses that with
//! `InvalidArgument` while the lock is live and remembered; another one would need a query to tell, and
//! does not.
//!
//! # In logs
//!
//! Neither this crate nor gcloud-sdk, tonic, hyper or h2 logs a key, a lock id or a token, at any
//! level: they describe calls and frames, not what these carry.
//!
//! # What the database needs
//!
//! - **Native mode**, and the single-field index on `lockId` of the lock collection, which Firestore
//!   keeps by itself unless it was exempted.
//! - **No TTL policy on the fence counters**, ever: a deleted counter starts again at one, and fences
//!   repeat. Delete counters by no other means either. A TTL policy on the *lock* collection is
//!   possible only with a timestamp field, which these documents do not have; expired locks are
//!   overwritten by the next holder, and deleted by
//!   [`with_cleanup_in_is_locked`](FirestoreOptions::with_cleanup_in_is_locked).
//! - The IAM role **`roles/datastore.user`** for the clients. Of its permissions these are used:
//!   `datastore.entities.get` and `.list` for reads and queries, `.create`, `.update` and `.delete` for
//!   commits. Transactions would need `datastore.databases.get` as well; there are none. Security rules
//!   do not apply to such clients, and should deny both collections to mobile and web clients.
//!
//! Each key costs a counter document for ever. Firestore bills reads, writes and deletes: a cycle of
//! acquire and release is two reads, two writes and a delete. A document takes about one sustained
//! write a second before it gets slower, so one key serves as many cycles.
//!
//! # What the crate costs
//!
//! 179 crates, and a minute and a half of CPU time for a first debug build, most of it for aws-lc and
//! the generated interface of Firestore. TLS is rustls with aws-lc-rs, as in the other backends; neither
//! OpenSSL nor ring is compiled. Servers are checked against the certificates that the system trusts;
//! Firestore's own, on a system that has none, against Mozilla's.
//!
//! # More
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has core concepts, a fenced
//! write for Firestore, the checklist for production, and alerts.

#![doc(html_root_url = "https://docs.rs/syncguard-firestore/latest")]
// The other crates build with an older Rust, which has no such units; all are to read alike.
#![allow(clippy::duration_suboptimal_units, reason = "as in the other crates")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod backend;
mod by_lock_id;
mod cache;
mod client;
mod clock;
mod config;
mod connect;
mod document;
mod drift;
mod error;
mod extend;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
mod inner;
mod is_locked;
mod listen;
mod listing;
mod lookup;
mod names;
mod query;
mod release;
mod retry;
mod settle;
#[cfg(test)]
mod test_logs;
mod url;

pub use gcloud_sdk;
pub use syncguard_core::*;

pub use self::backend::FirestoreBackend;
pub use self::config::FirestoreOptions;
pub use self::drift::{ClockDrift, DriftLevel};

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
