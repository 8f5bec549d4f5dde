//! syncguard-object-store, on a bucket in this process and on real servers.

mod azurite;
mod bucket;
mod conformance;
mod operations;
pub(crate) mod support;
