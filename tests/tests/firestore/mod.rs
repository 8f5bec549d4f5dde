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
mod operations;
mod progress;
mod remembered;
mod support;
mod takeover;
mod ticks;
mod transactional;
mod transactions;
mod watch;
