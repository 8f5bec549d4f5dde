//! syncguard-etcd against etcd.

// Its cases judge the end of a lock to the millisecond, so its backends do not measure the members' clocks.
#[cfg(feature = "seams")]
mod conformance;
pub(crate) mod faults;
mod long;
pub(crate) mod members;
mod operations;
mod settings;
pub(crate) mod support;
