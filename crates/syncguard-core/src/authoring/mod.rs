//! For authors of backends and decorators: the parts that every backend needs. Authors of recipes find theirs in [`recipes`].
//!
//! | item | purpose |
//! |---|---|
//! | [`LockInventory`] | listings, and the raising of counters |
//! | [`basic_health`], [`reported_health`] | health checks |
//! | [`cancel`] | operations that go on without their caller |
//! | [`StoreClock`], [`StoreTime`] | the store's time without a query: when locks are over, and deadlines of writes |
//! | [`make_storage_key`], [`make_fence_key`] | the names of records and counters, as the TypeScript library makes them |
//! | [`backend_url`] | URLs with options |
//! | [`hash_key`] | the hash of a key or a name for logs and errors |
//! | [`is_clearable`] | when the record of an expired lock may be deleted |
//! | [`bound_holder`], [`is_polled`], [`holder_in`], [`holder_text`] | holders in a column that other clients do not know |
//! | [`checked_timeout`], [`answer_patience`], [`ABANDONED_AFTER`], [`RetryPauses`] | timeouts of options; when an answer is missing; random pauses |
//! | [`corrupt_record`], [`LOCK_ID_IN_USE`] | errors that read the same on every store |
//! | [`signals`] | signals of releases by other processes |
//! | [`conditional`], [`Attempts`], [`Fault`] | the protocol of a store whose writes have preconditions, and its retries |
//! | [`FailureSubject`], [`LookLimit`], [`Connection`] | what a failure says about the connection; how often to look for another; how it takes the place |
//! | [`CallSource`], [`sources`], [`is_unknown_name`] | what a driver's error says, without its texts |
//! | [`Recent`] | the memory of a backend for its own records |
//! | [`OutageLog`] | one log line for a failure that lasts |
//! | [`CredentialsProvider`] | passwords that change |
//! | `tls`, with the feature of that name; [`TlsFault`] | certificates, also those that are replaced on disk; what failed |
//! | [`catch_callback_panic`] | callbacks of users that may panic |
//!
//! A backend makes its errors by functions of [`LockError`](crate::LockError), which the page of that type leaves out: users
//! read errors.
//!
//! ```
//! use syncguard_core::{ErrorCode, LockError};
//!
//! let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
//! let away = LockError::new(ErrorCode::ServiceUnavailable, "no connection").with_source(&refused);
//! let bad = LockError::invalid_argument("the port is 0; 1 to 65535 are allowed");
//! let odd = LockError::internal("the answer makes no sense").with_unknown_outcome();
//! let cancelled = LockError::aborted();
//! # let _ = (away, bad, odd, cancelled);
//! ```
//!
//! - `with_source` keeps the chain of causes as text, so that no driver's type and no credential gets out.
//! - `with_key`, `with_lock_id` and `with_holder` say which lock it was. Key and id stay redacted, and no message has them.
//! - `with_unknown_outcome` says that the store may have carried out the operation: it was sent and not answered.
//! - `with_record_lost` says that no record is left to rely on. A guard that gets this answer to an extend ends at once, so a
//!   failure that may pass has no such mark.
//!
//! The guide's page for authors, in the documentation of the `syncguard` crate, goes through them step by step.

mod attempts;
pub mod backend_url;
mod call_source;
pub mod cancel;
mod clean_up_guard;
mod client_options;
pub mod conditional;
mod connection;
mod credentials;
mod errors;
mod failure;
mod holder_column;
mod recent;
pub mod recipes;
pub mod signals;
mod storage_key;
mod store_clock;
mod store_time;
#[cfg(feature = "tls")]
pub mod tls;
mod tls_fault;

pub use self::attempts::{Attempt, Attempts, Retries};
pub use self::call_source::{CallSource, is_unknown_name, sources};
pub use self::clean_up_guard::{CLEAN_UP_GUARD, is_clearable};
#[doc(hidden)]
pub use self::client_options::ClientOptions;
pub use self::connection::{Connection, Loan};
pub use self::credentials::{Credentials, CredentialsProvider};
pub use self::errors::{LOCK_ID_IN_USE, corrupt_record};
pub use self::failure::{FailureSubject, Fault, Finding, LookLimit};
pub use self::holder_column::{bound_holder, holder_in, holder_text, is_polled};
pub use self::recent::Recent;
pub use self::storage_key::{
    StorageKey, StorageLimits, make_fence_key, make_hashed_storage_key, make_storage_key,
};
pub use self::store_clock::{Clock, SentAt, ServerTime, StoreClock};
pub use self::store_time::StoreTime;
pub use self::tls_fault::TlsFault;
pub use crate::backend::{LockInventory, basic_health, reported_health};
pub use crate::client::outage_log::OutageLog;
pub use crate::util::{
    ABANDONED_AFTER, answer_patience, catch_callback_panic, checked_timeout, pause::RetryPauses,
};
pub use crate::value::{hash_key, hash_key_triple32};
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub use crate::{rt::asleep::simulated::simulate_sleep, value::random::seeded::seed_randomness};
