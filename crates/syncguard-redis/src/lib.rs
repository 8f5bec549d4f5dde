//! Locks in Redis 6.2 or newer, and in Valkey: one script and one round trip for each operation.
//!
//! This crate re-exports everything of the contract, so a Redis user needs no other crate of SyncGuard.
//!
//! ```toml
//! [dependencies]
//! syncguard-redis = { version = "0.1", features = ["tls"] } # `tls` for rediss:// alone
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use syncguard_redis::{LockConfig, RedisBackend, lock};
//!
//! # async fn run() -> Result<(), syncguard_redis::LockError> {
//! let backend = RedisBackend::connect("redis://localhost:6379").await?;
//! let report = LockConfig::new("job:report").with_ttl(Duration::from_secs(60));
//! let fence = lock(&backend, report, async |held| held.fence()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The [guide] has a section for each subject:
//!
//! | section | content |
//! |---|---|
//! | [Options](guide#options) | the options, and clients of [`fred`] that the program already has |
//! | [What the server must be](guide#what-the-server-must-be) | persistence, eviction, replicas, trust |
//! | [Access rules](guide#access-rules) | a user for locks alone |
//! | [TLS](guide#tls) | certificates, and ports of the wrong kind |
//! | [Cluster](guide#cluster) | how locks spread over the nodes |
//! | [Durability](guide#durability) | what a crash, a full memory or a failover takes back |
//! | [What is stored](guide#what-is-stored) | the records, and the keys that are refused |
//! | [When the server is away](guide#when-the-server-is-away) | outages, unknown outcomes, deadlines |
//! | [Waiting](guide#waiting) | signals, and when waiters poll |
//! | [Listing all locks](guide#listing-all-locks) | the inventory |
//! | [Names of connections](guide#names-of-connections) | what `CLIENT LIST` shows |
//! | [In logs](guide#in-logs) | what is logged |
//!
//! The guide of the `syncguard` crate (its module `guide`) has core concepts, a fenced write for Redis, the checklist
//! for production, and alerts.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-redis/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod addresses;
mod backend;
mod client;
mod cluster;
mod config;
mod connect;
mod connection_name;
mod driver;
mod durability;
mod error;
mod extend;
mod find_by_id;
mod fred_client;
mod health;
#[doc = include_str!("guide.md")]
pub mod guide {}
mod inner;
mod is_locked;
mod layout;
mod link;
mod listening;
mod listing;
mod live;
mod log_in;
mod lookup;
mod names;
mod neighbors;
mod probe;
mod record_name;
mod release;
mod reply;
mod scripts;
mod servers;
mod service;
mod settle;
mod signals;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod simulated;
mod sweep;
#[cfg(feature = "tls")]
mod tls;
mod url;

pub use fred;
pub use syncguard_core::*;

pub use self::backend::RedisBackend;
pub use self::config::RedisOptions;

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
