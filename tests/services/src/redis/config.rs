//! The options of a server.

use anyhow::Result;

use super::RedisServer;
use crate::ports;

/// Options for a [`RedisServer`]. Unset options have Redis's defaults, but nothing is saved.
#[derive(Debug, Clone, Default)]
pub struct RedisBuilder {
    pub(super) password: Option<String>,
    append_only: AppendOnly,
    snapshots: bool,
    max_memory: Option<(String, String)>,
    master: Option<Master>,
    cluster: bool,
    extra: Vec<String>,
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

#[derive(Debug, Clone)]
struct Master {
    port: u16,
    password: Option<String>,
}

impl RedisBuilder {
    /// Requires this password from clients.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Keeps an append-only file.
    #[must_use]
    pub fn append_only(mut self, append_only: AppendOnly) -> Self {
        self.append_only = append_only;
        self
    }

    /// Saves snapshots at the intervals Redis has by default, and at a SIGTERM.
    #[must_use]
    pub fn snapshots(mut self, on: bool) -> Self {
        self.snapshots = on;
        self
    }

    /// Limits the memory (`"2mb"`), with the eviction policy (`"noeviction"`, `"allkeys-lru"`, …).
    #[must_use]
    pub fn max_memory(mut self, bytes: &str, policy: &str) -> Self {
        self.max_memory = Some((bytes.to_owned(), policy.to_owned()));
        self
    }

    /// Replicates `master`; [`start`](Self::start) waits until it has the data.
    #[must_use]
    pub fn replica_of(mut self, master: &RedisServer) -> Self {
        self.master =
            Some(Master { port: master.port(), password: master.password().map(str::to_owned) });
        self
    }

    /// Runs in cluster mode, as a node that knows no other node; see [`RedisCluster`](super::RedisCluster).
    #[must_use]
    pub fn cluster(mut self, on: bool) -> Self {
        self.cluster = on;
        self
    }

    /// Adds a line to `redis.conf`.
    #[must_use]
    pub fn config(mut self, line: &str) -> Self {
        self.extra.push(line.to_owned());
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> Result<RedisServer> {
        RedisServer::start_with(&self)
    }

    pub(super) fn is_replica(&self) -> bool {
        self.master.is_some()
    }

    /// The configuration file.
    pub(super) fn render(&self, port: u16, folder: &str) -> Result<String> {
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("dir {folder}"),
            // The default is five seconds, to wait for more replicas.
            "repl-diskless-sync-delay 0".to_owned(),
        ];
        if !self.snapshots {
            lines.push("save \"\"".to_owned());
        }
        if let Some(password) = &self.password {
            lines.push(format!("requirepass {password}"));
        }
        match self.append_only {
            AppendOnly::Off => {}
            AppendOnly::EverySecond => lines.extend(append_only_file("everysec")),
            AppendOnly::Always => lines.extend(append_only_file("always")),
        }
        if let Some((bytes, policy)) = &self.max_memory {
            lines.push(format!("maxmemory {bytes}\nmaxmemory-policy {policy}"));
        }
        if let Some(master) = &self.master {
            lines.push(format!("replicaof 127.0.0.1 {}", master.port));
            if let Some(password) = &master.password {
                lines.push(format!("masterauth {password}"));
            }
        }
        if self.cluster {
            let bus = ports::free()?;
            lines.push(format!("cluster-enabled yes\ncluster-port {bus}"));
            lines.push("cluster-node-timeout 2000".to_owned());
            // A master stays a master when its last slot is moved away.
            lines.push("cluster-allow-replica-migration no".to_owned());
        }
        lines.extend(self.extra.iter().cloned());
        Ok(lines.join("\n") + "\n")
    }
}

fn append_only_file(sync: &str) -> [String; 2] {
    ["appendonly yes".to_owned(), format!("appendfsync {sync}")]
}
