//! syncguard-firestore against Google's emulator.

mod conformance;
pub(crate) mod errors;
mod faults;
pub(crate) mod gateway;
mod hints;
mod interop;
mod inventory;
mod keys;
mod late;
pub(crate) mod operations;
mod remembered;
pub(crate) mod support;
mod takeover;
mod watch;
