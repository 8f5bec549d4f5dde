//! The options of a server.

use std::path::PathBuf;

use anyhow::Result;

use super::RedisServer;

/// Options for a [`RedisServer`]. Unset options have Redis's defaults, but nothing is saved.
#[derive(Debug, Clone, Default)]
pub struct RedisBuilder {
    pub(super) password: Option<String>,
    snapshots: bool,
    pub(super) is_replica: bool,
    cluster: bool,
    pub(super) programs: Option<PathBuf>,
    lines: Vec<String>,
}

/// The append-only file, which decides which of the last writes survive a SIGKILL of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AppendOnly {
    /// No file.
    #[default]
    Off,
    /// Written at each command, synced once a second.
    EverySecond,
    /// Synced before each reply.
    Always,
}

impl RedisBuilder {
    /// Requires this password from clients.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        let line = format!("requirepass {password}");
        Self { password: Some(password.to_owned()), ..self }.config(&line)
    }

    /// Runs the programs in this folder, or those of the system.
    #[must_use]
    pub fn programs(self, programs: Option<PathBuf>) -> Self {
        Self { programs, ..self }
    }

    /// Keeps an append-only file.
    #[must_use]
    pub fn append_only(self, append_only: AppendOnly) -> Self {
        let sync = match append_only {
            AppendOnly::Off => return self,
            AppendOnly::EverySecond => "everysec",
            AppendOnly::Always => "always",
        };
        self.config("appendonly yes").config(&format!("appendfsync {sync}"))
    }

    /// Saves snapshots at the intervals Redis has by default, and at a SIGTERM.
    #[must_use]
    pub fn snapshots(self, on: bool) -> Self {
        Self { snapshots: on, ..self }
    }

    /// Limits the memory (`"2mb"`), with the eviction policy (`"noeviction"`, `"allkeys-lru"`, …).
    #[must_use]
    pub fn max_memory(self, bytes: &str, policy: &str) -> Self {
        self.config(&format!("maxmemory {bytes}")).config(&format!("maxmemory-policy {policy}"))
    }

    /// Replicates `master`; [`start`](Self::start) waits until it has the data.
    #[must_use]
    pub fn replica_of(self, master: &RedisServer) -> Self {
        let mut replica = self.config(&format!("replicaof 127.0.0.1 {}", master.port()));
        if let Some(password) = master.password() {
            replica = replica.config(&format!("masterauth {password}"));
        }
        Self { is_replica: true, ..replica }
    }

    /// Runs in cluster mode, as a node that knows no other node; see [`RedisCluster`](super::RedisCluster).
    #[must_use]
    pub fn cluster(self, on: bool) -> Self {
        Self { cluster: on, ..self }
    }

    /// Adds a line to `redis.conf`.
    #[must_use]
    pub fn config(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> Result<RedisServer> {
        RedisServer::start_with(&self)
    }

    /// The configuration file.
    pub(super) fn render(&self, port: u16, folder: &str) -> String {
        // The delay is five seconds by default, to wait for more replicas.
        let mut lines =
            vec![format!("port {port}\nbind 127.0.0.1\ndir {folder}\nrepl-diskless-sync-delay 0")];
        if !self.snapshots {
            lines.push("save \"\"".to_owned());
        }
        if self.cluster {
            lines.push("cluster-enabled yes".to_owned());
            // A master stays a master when its last slot is moved away.
            lines.push("cluster-node-timeout 2000\ncluster-allow-replica-migration no".to_owned());
        }
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}
