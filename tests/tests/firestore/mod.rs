//! syncguard-firestore against Google's emulator.

mod conformance;
pub(crate) mod errors;
mod faults;
pub(crate) mod gateway;
mod hints;
mod interop;
mod inventory;
mod keys;
// A late commit must not meet the wait for a connection that comes back, which a seam shortens.
#[cfg(feature = "seams")]
mod late;
pub(crate) mod operations;
mod remembered;
pub(crate) mod support;
mod takeover;
mod watch;
