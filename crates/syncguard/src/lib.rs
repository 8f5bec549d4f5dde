//! Distributed locks with fencing tokens, on the store you already have.
//!
//! Only one process of a fleet at a time does the work that a key names. Every lock expires, so a crash never blocks for ever.
//! Every acquisition carries a fencing token that grows strictly per key, so a holder that was too slow cannot overwrite
//! its successor. The library runs on tokio; a lock is a lease and is not re-entrant.
//!
//! ```
//! use std::time::Duration;
//! use syncguard::{LockConfig, run};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # async fn charge(_: syncguard::Fence) -> Result<u32, Box<dyn std::error::Error>> { Ok(1) }
//! let backend = syncguard::connect("memory:").await?;
//! let payment = LockConfig::new("payment:123").with_ttl(Duration::from_secs(10));
//! let receipt = run(&backend, payment, async |held| charge(held.fence()).await).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The lock is renewed while the work goes on, and the work ends if the lock is lost. `held.fence()` goes along with every
//! write, for example as `UPDATE … WHERE id = $1 AND fence <= $2`, so that the data refuses a late writer.
//!
//! | you want | use |
//! |---|---|
//! | a guard, released when it is dropped | [`acquire`], [`try_acquire`] |
//! | to run work that ends with its lock | [`run`](crate::run()) |
//! | to run work that must not be cut off | [`lock()`] |
//! | any of these, configured once | [`Locker`] |
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
//! - `etcd`: etcd 3.4 or later.
//! - `firestore`: Cloud Firestore.
//! - `object-store`: a bucket, as any store of the crate `object_store` that has writes with conditions; with `aws`, `azure`
//!   and `gcp` also URLs of Amazon S3, Azure Blob Storage and Google Cloud Storage.
//! - `sqlite`: one file for the processes of one machine, no server.
//! - `blocking`: the module of that name, for programs without a runtime.
//! - `recipes`: a leader election, a semaphore, readers and writers, schedules whose ticks each run once, and several locks at
//!   once.
//! - `cron`: schedules of cron expressions with a time zone.
//! - `telemetry`: events for every operation, wait and hold, for a callback and for `tracing`.
//! - `opentelemetry`: metrics of the same, for version 0.33 of the crate `opentelemetry`.
//! - `tls`: TLS to Redis, PostgreSQL and etcd, rustls with aws-lc-rs. Firestore always has it.
//! - `unix-sockets`: `redis+unix://` URLs.
//! - `serde`: the types that are safe to print can be serialised.
//!
//! The names that most programs need are in the root of this crate. Requests and results of single operations are in
//! [`contract`], listings in [`inventory`], look-ups for people in [`diagnostics`], and helpers for authors of backends in
//! [`authoring`] and [`observe`].
//!
//! # The guide
#![cfg_attr(
    all(
        feature = "aws",
        feature = "azure",
        feature = "blocking",
        feature = "etcd",
        feature = "firestore",
        feature = "gcp",
        feature = "memory",
        feature = "object-store",
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
        feature = "aws",
        feature = "azure",
        feature = "blocking",
        feature = "etcd",
        feature = "firestore",
        feature = "gcp",
        feature = "memory",
        feature = "object-store",
        feature = "opentelemetry",
        feature = "postgres",
        feature = "recipes",
        feature = "redis",
        feature = "sqlite",
        feature = "tls"
    )),
    doc = "\nThis documentation was built without some features. With all features, as on docs.rs, it has the guide."
)]
// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod connect;
// The guide is text about every feature: only rustdoc reads it, and only if all features are on.
#[cfg(all(
    any(doc, doctest),
    feature = "aws",
    feature = "azure",
    feature = "blocking",
    feature = "etcd",
    feature = "firestore",
    feature = "gcp",
    feature = "memory",
    feature = "object-store",
    feature = "opentelemetry",
    feature = "postgres",
    feature = "recipes",
    feature = "redis",
    feature = "sqlite",
    feature = "tls"
))]
#[cfg_attr(docsrs, doc(auto_cfg = false))]
pub mod guide;

#[cfg(feature = "blocking")]
pub mod blocking;

pub use syncguard_core::*;

pub use self::connect::{connect, connect_with_credentials};

/// The embedded backend: one process, no server.
#[cfg(feature = "memory")]
pub use syncguard_memory as memory;

/// The etcd backend.
#[cfg(feature = "etcd")]
pub use syncguard_etcd as etcd;
/// Fenced writes: what your data needs to refuse a holder that writes too late, for any driver.
pub use syncguard_fenced as fenced;

/// The Firestore backend.
#[cfg(feature = "firestore")]
pub use syncguard_firestore as firestore;

/// The backend on a bucket.
#[cfg(feature = "object-store")]
pub use syncguard_object_store as object_store;

/// The PostgreSQL backend.
#[cfg(feature = "postgres")]
pub use syncguard_postgres as postgres;

/// Leader election, semaphores, readers and writers, several locks at once, ticks of a schedule, over any backend.
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
