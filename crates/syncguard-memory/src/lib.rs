//! The embedded backend of SyncGuard: the whole contract in one process, without a server.
//!
//! Use it for tests, for programs that run as a single process, and to try things out. Locks and
//! fence counters live in memory: the clones of one [`MemoryBackend`] share them, and they end with
//! the process. The other backends are compared with this one.
//!
//! ```toml
//! [dependencies]
//! syncguard-memory = "0.1"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```
//! use std::time::Duration;
//! use syncguard_memory::{LockConfig, MemoryBackend, lock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), syncguard_memory::LockError> {
//! let backend = MemoryBackend::new();
//! let report = LockConfig::new("job:report").with_ttl(Duration::from_secs(60));
//! let fence = lock(&backend, report, async |held| held.fence()).await?;
//! assert_eq!(fence.to_string(), "000000000000001");
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//!
//! Locks age by tokio's clock. A test that pauses this clock (`#[tokio::test(start_paused = true)]`)
//! decides itself when a lock expires:
//!
//! ```
//! use std::time::Duration;
//! use syncguard_memory::{MemoryBackend, try_acquire};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), syncguard_memory::LockError> {
//! let backend = MemoryBackend::new();
//! let crashed = try_acquire(&backend, "payment:7").await?.acquired().expect("free");
//! std::mem::forget(crashed); // the lock is never released
//!
//! assert!(try_acquire(&backend, "payment:7").await?.is_busy());
//! tokio::time::advance(Duration::from_secs(31)).await; // the TTL of 30 s and the tolerance of 1 s
//! assert!(try_acquire(&backend, "payment:7").await?.is_acquired());
//! # Ok(())
//! # }
//! ```
//!
//! A [`TestStore`] is also down, slow or read-only, and loses a lock, when the test says so. The guide (module `guide` of
//! the `syncguard` crate) has a page on testing your own code this way.

#![doc(html_root_url = "https://docs.rs/syncguard-memory/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backend;
mod clock;
mod listing;
mod store;
mod test_store;

pub use syncguard_core::*;

pub use self::backend::MemoryBackend;
pub use self::test_store::TestStore;

// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
