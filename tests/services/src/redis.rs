//! Redis (or Valkey): single servers, replicas, a cluster, a sentinel.

mod cluster;
mod config;
mod sentinel;
mod server;

pub use cluster::RedisCluster;
pub use config::{AppendOnly, RedisBuilder};
pub use sentinel::Sentinel;
pub use server::RedisServer;

use crate::install::Program;

const SERVER: Program = Program {
    names: &["redis-server", "valkey-server"],
    folders: &[],
    package: "redis-server",
    otherwise: "install Redis 7 or newer, or Valkey, so that its programs are on PATH",
};

const CLI: Program =
    Program { names: &["redis-cli", "valkey-cli"], package: "redis-tools", ..SERVER };
