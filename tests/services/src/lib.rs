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
//! Where a server is missing, the error says how to install it. Nothing here ever skips. `cargo xtask`
//! installs by itself what is missing, see [`install`].
//!
//! No server outlives the process that started it: dropping its handle kills it, and when the
//! process ends without dropping it (a `static`, a SIGKILL, Ctrl-C) a watchdog does, and removes
//! the folders too.
//!
//! What lies between a client and its server can be broken with [`proxy::FaultProxy`].

pub mod firestore;
pub mod install;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod tools;
pub mod wait;

mod scratch;
mod watchdog;
