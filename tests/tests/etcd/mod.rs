//! syncguard-etcd against etcd.

#[cfg(feature = "seams")]
mod clock;
#[cfg(feature = "seams")]
mod conformance;
mod faults;
#[cfg(feature = "seams")]
mod operations;
mod settings;
pub(crate) mod support;
