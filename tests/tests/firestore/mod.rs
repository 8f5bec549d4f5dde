//! syncguard-firestore against Google's emulator.

mod conformance;
mod errors;
mod faults;
mod gateway;
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
