//! syncguard-etcd against etcd.

mod conformance;
mod faults;
pub(crate) mod members;
mod operations;
mod settings;
pub(crate) mod support;
