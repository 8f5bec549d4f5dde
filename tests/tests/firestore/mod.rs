//! syncguard-firestore against Google's emulator.

mod conformance;
pub(crate) mod errors;
mod faults;
pub(crate) mod gateway;
mod interop;
mod inventory;
mod keys;
pub(crate) mod operations;
pub(crate) mod support;
mod takeover;
mod watch;
