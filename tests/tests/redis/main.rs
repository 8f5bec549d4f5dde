//! syncguard-redis against real servers.

mod cluster;
mod conformance;
mod connecting;
mod connection_names;
mod contention;
mod durability;
mod errors;
mod faults;
mod history;
mod interop;
mod inventory;
mod late;
mod records;
mod replication;
mod sharded;
mod sharded_faults;
mod signals;
mod signals_everywhere;
mod signals_lost;
mod support;
mod tls;

#[path = "../support/line.rs"]
mod line;

#[path = "../postgres/warnings.rs"]
mod warnings;
