//! syncguard-etcd against etcd.

pub(crate) mod conformance;
pub(crate) mod faults;
pub(crate) mod members;
mod operations;
mod settings;
pub(crate) mod support;
