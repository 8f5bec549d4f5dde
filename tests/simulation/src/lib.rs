//! A simulated fleet: processes that lock, on a network that reorders, delays, doubles and loses messages, and on
//! stores that work step by step like the real ones.
//!
//! The library itself is real: its queue, its guards, its renewals and its clean-up run unchanged. Time, the network
//! and the store below it are simulated. One seed decides everything, so that each finding can be repeated.
//!
//! | file | what it is |
//! |---|---|
//! | `hub.rs` | the network, and the order of all events |
//! | `store/` | executable twins of the Redis scripts, of the PostgreSQL statements and of Firestore's documents; the embedded backend as a server |
//! | `twin/` | the backend at the other end, with the library's own deadlines and clean-up; `firestore` has what that backend decides by itself |
//! | `member.rs` | a process: a runtime whose clock is moved by hand, which can be stopped and killed |
//! | `work/` | what a process does |
//! | `plan.rs`, `run/` | what is run; who runs when, and what goes wrong |
//! | `smallest.rs` | the few operations that show a violation |
//! | `alone.rs` | a twin by itself, to be compared with the real server |
//! | `flaw.rs`, `line.rs` | what can be wrong on purpose |

mod alone;
mod documents;
mod flaw;
mod hub;
mod line;
mod link;
mod member;
mod plan;
mod protocol;
mod redis;
mod registers;
mod run;
mod smallest;
mod store;
mod twin;
mod work;

pub use alone::Alone;
pub use flaw::Flaw;
pub use plan::{Outcome, Plan, Store};
pub use run::{record, run};
pub use smallest::smallest;
