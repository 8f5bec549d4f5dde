//! Events, logs and metrics for SyncGuard locks: a decorator over any backend.
//!
//! [`with_telemetry`] wraps a backend in another one with the same abilities and the same type of fence. Every operation, and every wait and hold of [`lock`](syncguard_core::lock()) and of
//! guards, becomes a [`LockEvent`]:
//!
//! ```
//! use syncguard_memory::{MemoryBackend, lock};
//! use syncguard_telemetry::{TelemetryOptions, with_telemetry};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), syncguard_memory::LockError> {
//! let options = TelemetryOptions::new().with_on_event(|event| {
//!     println!("{} {} in {:?}", event.kind, event.result, event.duration);
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
//! # Events
//!
//! | [`kind`](LockEvent::kind) | one for each | `ok` | `fail` |
//! |---|---|---|---|
//! | `acquire` | attempt | granted | [`reason`](LockEvent::reason) `locked`; for a tick also `taken` and `too-early` |
//! | `release` | release | released | reason `expired` or `not-found` |
//! | `extend` | extend, renewals too | extended | reason `expired` or `not-found` |
//! | `isLocked` | question | locked | not locked |
//! | `lookup` | question | found | nothing found |
//! | `wait` | call of `lock`, `acquire`, `try_acquire` | granted, after so many [`attempts`](LockEvent::attempts) | reason `locked` |
//! | `hold` | guard | given back by its holder | lost, and [why](LockEvent::loss) |
//!
//! A semaphore makes one `wait` of a single attempt for each slot that it tries. No event tells how long a caller waits for
//! a permit, or that its time is over.
//!
//! An operation that ends with an error is a `fail` with an [`error_code`](LockEvent::error_code) and without a reason;
//! only a `wait` that ran out of time has both. An operation that is given up, because its token fires or its future is
//! dropped, has the code `Aborted`. A future that was never polled has sent nothing and gives no event. Clean-up inside
//! the backend, such as the release of a lock whose caller has gone, gives no event either.
//!
//! # Costs, and slow or broken callbacks
//!
//! Each operation pays for two readings of the clock and a place in a bounded queue. Hashing, callbacks and sinks run on
//! one thread of the telemetry's own, so a callback may block and delays no operation. Only the metrics of current
//! waiters and holders are counted at once. If the callbacks do not keep up, events are dropped and
//! [counted](TelemetryHandle::dropped_events). A panic in a callback is contained and counted as well. A backend that is not
//! wrapped computes nothing of all this.
//!
//! Nothing waits for that thread: not the end of a runtime, not the drop of the backend, and not the end of the program,
//! also if a callback blocks for ever. So events that wait when the program ends are lost: call
//! [`flush`](TelemetryHandle::flush) first, with a time limit. Dropping the backend loses no event: the thread ends after
//! the last event is delivered.
//!
//! # Privacy
//!
//! Events carry hashes of key and lock id. They carry the raw values only with
//! [`with_include_raw`](TelemetryOptions::with_include_raw), and even then `Debug` shows hashes. `tracing` and
//! metrics never get raw values.
//!
//! Events of a lock whose holder is at hand carry the holder's [label](LockEvent::holder), which is no secret and is
//! logged; metrics never get it. [`without_holder`](syncguard_core::LockConfig::without_holder) and an empty label of the
//! backend turn it off.
//!
//! The logs of the backends and their drivers keep to the same rule, down to `TRACE`. The documentation of each backend
//! has a section on it.
//!
//! # Prometheus and Grafana
//!
//! The package has alerts, [`prometheus/alerts.yml`][alerts], and a dashboard, [`grafana/dashboard.json`][dashboard].
//! Both know the metrics of [`with_opentelemetry`](TelemetryOptions::with_opentelemetry) and of the command
//! `syncguard export`; [the guide][production] says how to install them. In Prometheus, `syncguard.lock.hold_time` is
//! called `syncguard_lock_hold_time_seconds`, and `syncguard.lock.lost` is `syncguard_lock_lost_total`.
//!
//! [alerts]: https://docs.rs/crate/syncguard-telemetry/latest/source/prometheus/alerts.yml
//! [dashboard]: https://docs.rs/crate/syncguard-telemetry/latest/source/grafana/dashboard.json
//! [production]: https://docs.rs/syncguard/latest/syncguard/guide/production/#metrics-and-alerts
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
mod event;
mod families;
mod gauges;
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

// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
