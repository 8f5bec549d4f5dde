//! The cases. Their names and the rules they prove are in [`list`](crate::list).

pub(crate) mod cancellation;
pub(crate) mod cleanup;
pub(crate) mod concurrency;
pub(crate) mod contention;
pub(crate) mod errors;
pub(crate) mod expectation;
pub(crate) mod expiration;
pub(crate) mod fencing;
pub(crate) mod hints;
pub(crate) mod inventory;
pub(crate) mod keys;
pub(crate) mod late;
pub(crate) mod lifecycle;
pub(crate) mod lookup;
pub(crate) mod ownership;
pub(crate) mod signals;
pub(crate) mod windows;
