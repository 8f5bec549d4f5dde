//! syncguard-redis against real servers.

mod clock;
mod cluster;
mod conformance;
mod connecting;
mod connection_names;
mod durability;
mod errors;
mod faults;
mod fenced;
mod interop;
mod inventory;
mod records;
mod replication;
mod sent_twice;
mod sharded;
mod signals;
mod signals_everywhere;
mod signals_lost;
pub(crate) mod support;
mod tls;
mod usual;
