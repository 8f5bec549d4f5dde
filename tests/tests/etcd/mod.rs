//! syncguard-etcd against etcd.

mod clock;
mod conformance;
mod faults;
mod operations;
mod settings;
pub(crate) mod support;
