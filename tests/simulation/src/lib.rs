//! A simulated fleet: processes that lock, on a network that reorders, delays, doubles and loses messages, and on
//! servers that work step by step.
//!
//! The library and the backends are real. Time, the network and the servers are simulated. One seed decides
//! everything, so that each finding can be repeated.
//!
//! | store | real | simulated |
//! |---|---|---|
//! | Redis | the backend with its scripts, also on a cluster | fred, the commands that the scripts call |
//! | PostgreSQL | the backend, tokio-postgres and deadpool | sockets, what each statement does |
//! | Firestore | the backend | gRPC, the database |
//! | etcd | the backend | gRPC, the store |
//! | object store | the backend | the driver, the bucket |
//! | memory | the backend | |
//!
//! | file | what it is |
//! |---|---|
//! | `network.rs`, `listening.rs`, `streams.rs`, `link.rs` | the network, and the order of all events; its streams; a process's end of it |
//! | `redis/`, `postgres/`, `firestore/`, `etcd/` | a backend's connections, and the server at the other end |
//! | `objects.rs` | the same of an object store |
//! | `member.rs` | a process: a runtime whose clock is moved by hand, which can be stopped and killed |
//! | `work/` | what a process does |
//! | `plan.rs`, `run/` | what is run; who runs when, and what goes wrong |
//! | `smallest.rs` | the few operations that show a violation |
//! | `direct.rs` | a backend and its simulated server, to be compared with the real server |
//! | `flaw.rs`, `flawed_queue.rs` | what can be wrong on purpose |

mod direct;
mod etcd;
mod firestore;
mod flaw;
mod flawed_queue;
mod link;
mod listening;
mod member;
mod network;
mod objects;
mod plan;
mod postgres;
mod protocol;
mod redis;
mod registers;
mod run;
mod server;
mod smallest;
mod streams;
mod work;

pub use direct::Direct;
pub use flaw::Flaw;
pub use plan::{Outcome, Plan, Store, name_of};
pub use run::{record, run};
pub use smallest::smallest;
