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
mod model;
mod operations;
mod remembered;
mod support;
mod takeover;
mod watch;

#[path = "../support/line.rs"]
mod line;
