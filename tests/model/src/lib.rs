//! The protocols of `SyncGuard` as models: small worlds of three clients, one key and a network that
//! may delay, lose and repeat, in which a checker ([`stateright`]) tries every order of events.
//!
//! | file | what it mirrors |
//! |---|---|
//! | `client.rs` | the work of every client, with any store: `locking/guard/lease.rs`, `validity.rs` and `authoring/cancel` of `syncguard-core` |
//! | `redis.rs` | the scripts in `syncguard-redis/src/lua`, each of them in one step |
//! | `postgres/` | the statements in `syncguard-postgres/src/sql`, wait by wait, and those of the TypeScript library |
//! | `firestore/` | the reads and commits of `syncguard-firestore` |
//!
//! Each step says which lines it mirrors. A change of those lines needs a change of the step.
//!
//! Times count from now, so worlds that differ only in their absolute time are one. Clients with the same history are
//! interchangeable. Both make the number of worlds finite, and small enough to visit all.

#![allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "records are small in a model, and passed as they would be"
)]
#![allow(clippy::unnecessary_wraps, reason = "steps of one kind have one type")]
#![allow(
    private_interfaces,
    reason = "stores are made here and nowhere else; outside they are only named"
)]

mod checker;
mod client;
mod firestore;
mod postgres;
mod protocol;
mod redis;
mod reduce;
mod rules;
mod search;
mod seen;
mod world;

pub use checker::{Breach, Report, check, find};
pub use firestore::Firestore;
pub use postgres::Postgres;
pub use redis::Redis;
pub use rules::{Budget, Flaw, Rules, Ticks};
pub use search::{Limits, search};
pub use world::{Broken, Store, World};
