//! No key, lock id or password gets into a log, a span, an event or an error, on any backend, whether the library, a
//! driver or a dependency of a driver wrote the line.
//!
//! The tests read all log lines at TRACE level, through `tracing` and through the `log` crate, while the conformance
//! suite and further errors run on each backend, with telemetry around it. No driver, target or level is left out.

mod etcd;
#[path = "../etcd/support.rs"]
#[allow(dead_code, reason = "it has more than this binary uses")]
mod etcd_support;
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
