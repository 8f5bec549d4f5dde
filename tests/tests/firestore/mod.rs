//! syncguard-firestore against Google's emulator.

mod clock;
mod conformance;
mod errors;
mod faults;
mod gateway;
mod hints;
mod interop;
mod inventory;
mod keys;
mod late;
mod operations;
mod remembered;
pub(crate) mod support;
mod takeover;
mod watch;
