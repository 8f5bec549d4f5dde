//! Events, logs and metrics for SyncGuard locks: a decorator over any backend.
//!
//! [`with_telemetry`] wraps a backend in another one with the same abilities, the fence in its type
//! included. Every operation, and every wait and hold of [`lock`](syncguard_core::lock()) and of
//! guards, becomes a [`LockEvent`]:
//!
//! ```
//! use syncguard_memory::{MemoryBackend, lock};
//! use syncguard_telemetry::{TelemetryOptions, with_telemetry};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), syncguard_memory::LockError> {
//! let options = TelemetryOptions::new().with_on_event(|event| {
//!     println!("{} {} in {:?}", event.kind(), event.result(), event.duration());
//! });
//! let backend = with_telemetry(MemoryBackend::new(), options);
//! lock(&backend, "payment:123", async |_held| { /* … */ }).await?;
//! backend.telemetry().flush().await;
//! # Ok(())
//! # }
//! ```
//!
//! prints
//!
//! ```text
//! acquire ok in 2.1µs
//! wait ok in 5.8µs
//! hold ok in 3.2µs
//! release ok in 1.4µs
//! ```
//!
//! # What the events tell
//!
//! | [`kind`](LockEvent::kind) | one for each | `ok` | `fail` |
//! |---|---|---|---|
//! | `acquire` | attempt | granted | [`reason`](LockEvent::reason) `locked` |
//! | `release` | release | released | reason `expired` or `not-found` |
//! | `extend` | extend, renewals too | extended | reason `expired` or `not-found` |
//! | `isLocked` | question | locked | not locked |
//! | `lookup` | question | found | nothing found |
//! | `wait` | call of `lock`, `acquire`, `try_acquire` | granted, after so many [`attempts`](LockEvent::attempts) | reason `locked` |
//! | `hold` | guard | given back by its holder | lost, and [why](LockEvent::loss) |
//!
//! An operation that answers with an error is a `fail` with an [`error_code`](LockEvent::error_code)
//! and without a reason (but for a `wait` that ran out of time, which has both). One that is given
//! up, because its token fires or its future is dropped, has the code `Aborted`; a future that was
//! never polled has sent nothing and gives no event. What a backend does on its own after that, such
//! as releasing a lock that nobody waits for any more, happens inside the backend and gives none.
//!
//! # What it costs, and what it cannot break
//!
//! The operation pays for two readings of the clock and a place in a bounded queue. Hashing,
//! callbacks and sinks run on a thread of the telemetry's own, so that a callback may block, and
//! delays no operation. Only the metrics of who waits and who holds right now are counted at once. When it does not keep up, events are dropped and
//! [counted](Telemetry::dropped_events). A panic in it is contained, and counted as well. A backend
//! that is not wrapped computes nothing of all this.
//!
//! Nothing waits for that thread: not the end of a runtime, not dropping the backend, and not the end of the
//! program, also where a callback blocks for ever. So events that wait when the program ends are lost:
//! [`flush`](TelemetryHandle::flush) first, with a time limit. Dropping the backend loses none.
//!
//! # Privacy
//!
//! Events carry hashes of key and lock id. The raw ones are there only if
//! [`with_include_raw`](TelemetryOptions::with_include_raw) or
//! [`with_include_raw_if`](TelemetryOptions::with_include_raw_if) says so, and even then `Debug` shows
//! hashes. `tracing` and metrics never get them.
//!
//! The backends keep to the same rule in what they and their drivers log, down to `TRACE`; each has
//! a section on it in its documentation.
//!
//! # Features
//!
//! - `tracing`: [`TelemetryOptions::with_tracing`] logs every event, with a level by its outcome.
//! - `opentelemetry`: [`TelemetryOptions::with_opentelemetry`] keeps metrics. It needs version 0.33 of the
//!   crate `opentelemetry`, and of `opentelemetry_sdk`.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-telemetry/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backend;
mod callbacks;
mod courier;
mod event;
mod families;
mod inbox;
mod now;
mod operation;
mod options;
mod queue;
mod record;
mod sinks;

#[cfg(feature = "opentelemetry")]
pub use opentelemetry;

pub use self::backend::{Telemetry, TelemetryHandle, with_telemetry};
pub use self::event::{EventKind, EventResult, LockEvent, Reason};
pub use self::options::TelemetryOptions;

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
