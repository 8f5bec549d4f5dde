//! The contract of SyncGuard backends as a test suite that any backend can run.
//!
//! The author of a backend for a new store implements [`LockBackend`](syncguard_core::LockBackend) and checks it
//! here: more than a hundred [cases](cases()) in seventeen [groups](Group), each a named rule with the test that proves
//! it. The backends of SyncGuard itself run the same suite. The guide of the `syncguard` crate says how to write a
//! backend.
//!
//! ```toml
//! [dev-dependencies]
//! syncguard-conformance = "0.1"
//! ```
//!
//! # In a test file
//!
//! The harness says how to reach the store, and the macro makes one `#[test]` of every case:
//!
//! ```
//! use syncguard_conformance::{Erased, Harness, conformance_tests};
//! use syncguard_memory::{Fence, Key, MemoryBackend};
//!
//! #[derive(Default)]
//! struct Memory(MemoryBackend);
//!
//! impl Harness for Memory {
//!     type Backend = MemoryBackend;
//!
//!     // This store lives in the process and uses tokio's clock, so its tests need not wait.
//!     const PAUSED_CLOCK: bool = true;
//!
//!     async fn connect(&self) -> MemoryBackend {
//!         self.0.clone() // with a real store: a connection of its own
//!     }
//!
//!     async fn set_fence_counter(&self, key: &Key, last: Fence) {
//!         self.0.set_fence_counter(key, last); // with a real store: writes the counter's record
//!     }
//! }
//!
//! conformance_tests!(memory, Memory::default());
//! conformance_tests!(memory_as_dyn_backend, Erased(Memory::default()));
//! # fn main() {}
//! ```
//!
//! `cargo test memory::ownership` then runs one group, and a failure names the rule:
//!
//! ```text
//! Error: an_extend_can_shorten: the expiry went from Timestamp(1780000120000 ms) to Timestamp(1780000120000 ms)
//!   the rule: An extend with a TTL below what was left brings the expiry forward.
//!   seen at …/syncguard-conformance/src/cases/expiration.rs:181:5
//! ```
//!
//! # Many cases in one test
//!
//! A [`Suite`] runs all cases or a selection, many of them side by side, and [`run`] runs a single case:
//!
//! ```
//! # use syncguard_conformance::{Harness, Suite};
//! # use syncguard_memory::{Fence, Key, MemoryBackend};
//! # #[derive(Default)]
//! # struct Memory(MemoryBackend);
//! # impl Harness for Memory {
//! #     type Backend = MemoryBackend;
//! #     const PAUSED_CLOCK: bool = true;
//! #     async fn connect(&self) -> MemoryBackend { self.0.clone() }
//! #     async fn set_fence_counter(&self, key: &Key, last: Fence) { self.0.set_fence_counter(key, last) }
//! # }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let report = Suite::new().run(Memory::default()).await;
//! assert!(report.is_success(), "{report}");
//! # }
//! ```
//!
//! One mistake can fail many cases. The [`Report`] names the failure to start with, whose rule the other cases build
//! on.
//!
//! # Backends to run it over
//!
//! - The backend as it is, and in the wrappers that users put around it: [`Shared`] for an `Arc`,
//!   [`Erased`] for [`DynBackend`](syncguard_core::DynBackend).
//! - A decorator has to keep the contract as well: [`Decorated`] puts one around every handle.
//! - Several runs may use a shared store at the same time. Every case works on random keys of its own; only the keys `.`
//!   and `..` are shared, and a case waits for them. Locks that a case leaves behind end within a few minutes; fence
//!   counters, and records that were corrupted on purpose, stay.
//!
//! # Time and runtimes
//!
//! - On a store with a real clock, the cases that wait for an expiry take one to three seconds
//!   each: about 30 s in all with two test threads, 5 s with a [`Suite`]. Timed cases notice a machine that is too slow
//!   to prove anything, and try again; no case takes longer than 3 minutes. A [`Suite`] runs cases that were
//!   [too slow](Failure::is_too_slow) once more, alone, and says so.
//! - Each test runs in a tokio runtime of its own: with two workers, or with one thread and time
//!   paused if [`Harness::PAUSED_CLOCK`] says so. A connection made in one test must not be used in
//!   another.
//! - With paused time, a backend that is busy and never waits keeps the time from passing, so its case hangs instead of
//!   failing.
//! - The suite installs a subscriber to see log lines, see [`LogWatch`].
//! - A backend that does not fence ([`NoFence`](syncguard_core::contract::NoFence)) runs the same suite; the
//!   cases about fences then [do not apply](Verdict::NotApplicable). The cases about fence windows apply to a backend
//!   whose [capabilities](syncguard_core::contract::BackendCapabilities::supports_fence_windows) say that it keeps them.
//! - The cases about late requests need a way to hold requests back, see [`RequestGate`]. Without it they do not apply, as a
//!   [`Suite`] shows in its report and a generated test in its output (`cargo test -- late --show-output`).
//!
//! # Limits
//!
//! The suite checks only what shows through the contract. It cannot prove that fences survive a crash of the store,
//! that a lost connection or a missing reply ends in an error in time, or that driver errors get the right codes.
//! That takes the store itself and ways to break it.

#![doc(html_root_url = "https://docs.rs/syncguard-conformance/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adapters;
mod case;
mod cases;
mod client;
mod context;
mod dyn_harness;
mod harness;
mod in_window;
mod late;
mod list;
mod log_lines;
mod logs;
mod macros;
mod other_process;
mod outcome;
mod over_all;
mod report;
mod run;
mod suite;
mod tasks;
mod unfenced;

pub use self::adapters::{Decorated, Erased, Shared};
pub use self::case::{Case, Group, cases};
pub use self::harness::Harness;
pub use self::late::{Late, RequestGate};
#[doc(hidden)]
pub use self::log_lines::{LogLine, LogLines};
pub use self::logs::LogWatch;
pub use self::report::{Failure, Report, Verdict};
#[doc(hidden)]
pub use self::run::__run_blocking;
pub use self::run::run;
pub use self::suite::Suite;

// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
