//! syncguard-firestore against Google's emulator.

#[cfg(feature = "seams")]
mod clock;
mod conformance;
mod errors;
mod faults;
mod gateway;
mod hints;
#[cfg(feature = "seams")]
mod interop;
mod inventory;
mod keys;
#[cfg(feature = "seams")]
mod late;
mod operations;
#[cfg(feature = "seams")]
mod remembered;
pub(crate) mod support;
#[cfg(feature = "seams")]
mod takeover;
mod watch;
