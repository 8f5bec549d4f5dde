//! syncguard-object-store, on a bucket in this process and on real servers.

mod azurite;
mod bucket;
// Its cases judge the end of a lock to the millisecond, so its backends have a clock that is known exactly.
#[cfg(feature = "seams")]
mod conformance;
mod operations;
pub(crate) mod support;
