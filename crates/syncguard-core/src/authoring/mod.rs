//! For authors of backends and decorators: what every backend needs, so that none has to find it out
//! again.
//!
//! | what | for |
//! |---|---|
//! | [`cancel`] | operations that survive the loss of their caller |
//! | [`StoreClock`] | the store's time without asking for it: deadlines of writes |
//! | [`make_storage_key`], [`make_fence_key`] | the names of records and counters, as the TypeScript library makes them |
//! | [`backend_url`] | URLs with options |
//! | [`hash_key`] | the hash that stands for a key or a name in logs and errors |
//! | [`is_clearable`] | when the record of an expired lock may go |
//! | [`bound_holder`], [`has_holder`], [`holder_in`], [`holder_text`] | holders in a column that other clients do not know |
//! | [`checked_timeout`], [`pause`] | timeouts out of options; pauses with chance in them |
//! | [`corrupt_record`], [`lock_id_in_use`] | errors that read the same on every store |
//! | [`signals`] | telling waiters of releases by other processes |
//! | [`Episode`] | what is said of a failure that lasts, once |
//! | `tls`, with the feature of that name | whom to trust |
//! | [`contain`] | closures of users that may panic |
//!
//! The guide's page for authors, in the documentation of the `syncguard` crate, says in which order.

pub mod backend_url;
pub mod cancel;
mod clearing;
mod contain;
mod errors;
mod holder_column;
pub mod pause;
pub mod signals;
mod storage_key;
mod store_clock;
mod timeout;
#[cfg(feature = "tls")]
pub mod tls;

pub use self::clearing::{CLEAN_UP_GUARD, is_clearable};
pub use self::contain::contain;
pub use self::errors::{LOCK_ID_IN_USE, corrupt_record, lock_id_in_use};
pub use self::holder_column::{bound_holder, has_holder, holder_in, holder_text};
pub use self::storage_key::{
    StorageKey, StorageLimits, make_fence_key, make_hashed_storage_key, make_storage_key,
};
pub use self::store_clock::StoreClock;
pub use self::timeout::checked_timeout;
pub use crate::contract::episode::Episode;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub use crate::value::random::seed_randomness;
pub use crate::value::{hash_key, hash_key_triple32};
