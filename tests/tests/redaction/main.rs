//! No key, lock id or password gets into a log, a span, an event or an error, on any backend,
//! whoever wrote the line: the library, a driver, or what a driver is made of.
//!
//! Everything that is logged at all is read at TRACE level, through `tracing` and through the `log`
//! crate, while the conformance suite and the errors that it does not reach run on each backend, with
//! telemetry around it. Nothing is left out of the reading: no driver, no target, no level.

mod firestore;
#[path = "../firestore/support.rs"]
#[allow(dead_code, reason = "it has more than this binary uses")]
mod firestore_support;
mod memory;
mod net;
mod planted;
mod postgres;
mod redis;
mod scenario;
mod sqlite;
mod watched;
