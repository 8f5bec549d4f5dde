//! Distributed locks with fencing tokens, on the store you already have.
//!
//! Only one process at a time does the work that a key names, across a fleet. Every lock expires,
//! so a crash never blocks for ever; every acquisition carries a fencing token that grows strictly
//! per key, so a holder that was too slow cannot overwrite its successor.
//!
//! ```
//! use std::time::Duration;
//! use syncguard::{LockConfig, lock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # async fn charge(_: syncguard::Fence) -> Result<u32, std::io::Error> { Ok(1) }
//! let backend = syncguard::connect("memory:").await?;
//! let payment = LockConfig::new("payment:123").with_ttl(Duration::from_secs(10));
//! let receipt = lock(&backend, payment, async |held| charge(held.fence()).await).await??;
//! # Ok(())
//! # }
//! ```
//!
//! The first `?` is for the lock, the second for the work's own result, which comes back untouched.
//!
//! | you want | use |
//! |---|---|
//! | a guard, released when it is dropped | [`acquire`], [`try_acquire`] |
//! | to run work under the lock | [`lock()`] |
//! | the same, and one error for the lock and the work | [`lock_flat`] |
//! | the same in code that is generic over the work and spawns it | [`lock_send`] |
//! | any of these, configured once | [`Locker`] |
//!
//! If the compiler answers `error[E0282]: type annotations needed` to [`lock_flat`], the work does not say what its error
//! is: end it with `Ok::<_, MyError>(value)`, where `MyError` takes a [`LockError`] in. If it answers that a future is not
//! `Send`, or that `AsyncFnOnce` is not general enough, use [`lock_send`].
//!
//! ```toml
//! [dependencies]
//! syncguard = { version = "0.1", default-features = false, features = ["redis", "tls"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! # Features
//!
//! - `memory` (default): the embedded backend, one process and no server.
//! - `redis`: Redis 6.2 or later, and Valkey.
//! - `postgres`: PostgreSQL 13 or later.
//! - `firestore`: Cloud Firestore.
//! - `sqlite`: one file for the processes of one machine, no server.
//! - `recipes`: a leader election, a semaphore, and several locks at once.
//! - `telemetry`: events for every operation, wait and hold, for a callback and for `tracing`.
//! - `opentelemetry`: metrics of the same, for version 0.33 of the crate `opentelemetry`.
//! - `tls`: TLS to Redis and PostgreSQL, rustls with aws-lc-rs. Firestore always has it.
//! - `unix-sockets`: `redis+unix://` URLs.
//! - `serde`: the types that are safe to print can be serialised.
//!
//! The names that most programs need stand here. Requests and results of single operations are in [`contract`], listings in
//! [`inventory`], look-ups for people in [`diagnostics`], and what authors of backends need in [`authoring`] and
//! [`observe`].
//!
//! # The guide
#![cfg_attr(
    all(
        feature = "firestore",
        feature = "memory",
        feature = "opentelemetry",
        feature = "postgres",
        feature = "recipes",
        feature = "redis",
        feature = "sqlite",
        feature = "tls"
    ),
    doc = include_str!("guide/index.md")
)]
#![cfg_attr(
    not(all(
        feature = "firestore",
        feature = "memory",
        feature = "opentelemetry",
        feature = "postgres",
        feature = "recipes",
        feature = "redis",
        feature = "sqlite",
        feature = "tls"
    )),
    doc = "\nIs part of this documentation when it is built with all features, as on docs.rs."
)]
// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod connect;
// It is text, and it speaks of everything: only for rustdoc, and only where everything is there.
#[cfg(all(
    any(doc, doctest),
    feature = "firestore",
    feature = "memory",
    feature = "opentelemetry",
    feature = "postgres",
    feature = "recipes",
    feature = "redis",
    feature = "sqlite",
    feature = "tls"
))]
#[cfg_attr(docsrs, doc(auto_cfg = false))]
pub mod guide;

pub use syncguard_core::*;

pub use self::connect::connect;

/// The embedded backend: one process, no server.
#[cfg(feature = "memory")]
pub use syncguard_memory as memory;

/// The Firestore backend.
#[cfg(feature = "firestore")]
pub use syncguard_firestore as firestore;

/// The PostgreSQL backend.
#[cfg(feature = "postgres")]
pub use syncguard_postgres as postgres;

/// Leader election, semaphores, several locks at once, over any backend.
#[cfg(feature = "recipes")]
pub use syncguard_recipes as recipes;

/// Events, logs and metrics over any backend.
#[cfg(feature = "telemetry")]
pub use syncguard_telemetry as telemetry;

/// The Redis backend.
#[cfg(feature = "redis")]
pub use syncguard_redis as redis;

/// The SQLite backend: one machine, no server.
#[cfg(feature = "sqlite")]
pub use syncguard_sqlite as sqlite;
