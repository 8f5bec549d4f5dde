//! Real servers for tests: each is a child process on a free port, in a folder of its own.
//!
//! ```no_run
//! use syncguard_test_services::redis::RedisServer;
//!
//! # fn main() -> anyhow::Result<()> {
//! let mut redis = RedisServer::start()?;
//! assert_eq!(redis.cli(&["PING"])?, "PONG");
//! redis.kill()?; // SIGKILL: whatever was not on disk is lost
//! redis.restart()?; // same port, same folder
//! # Ok(())
//! # }
//! ```
//!
//! If a server is missing, the error says how to install it; no test is skipped. `cargo xtask` installs missing
//! servers by itself, see [`install`].
//!
//! No server outlives the process that started it. Dropping its handle kills it; if the process ends without dropping
//! the handle (a `static`, a SIGKILL, Ctrl-C), a watchdog kills the server and removes its folder.
//!
//! [`proxy::FaultProxy`] breaks the network between a client and its server.

#![allow(
    clippy::missing_errors_doc,
    reason = "a test ends at the first error, which says what failed and has the end of the server's log"
)]

pub mod azurite;
pub mod catalogue;
pub mod etcd;
pub mod fetch;
pub mod firestore;
pub mod install;
pub mod mariadb;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod store;
pub mod tools;
pub mod wait;

mod scratch;
mod watchdog;
