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
mod labels;
mod late;
mod model;
mod records;
mod replication;
mod sharded;
mod sharded_faults;
mod signals;
mod signals_everywhere;
mod signals_lost;
mod support;
mod ticks;
mod tls;
