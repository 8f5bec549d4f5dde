//! A sentinel, which makes a replica the master when the master is gone.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::RedisServer;
use crate::{ports, scratch, wait};

/// A sentinel that watches one master. Start several for a quorum above one.
#[derive(Debug)]
pub struct Sentinel {
    server: RedisServer,
    master_password: Option<String>,
}

impl Sentinel {
    /// The name of the master.
    pub const MASTER_NAME: &'static str = "syncguard";

    /// Starts a sentinel that needs `quorum` votes to declare the master gone, after 500 ms of silence.
    pub fn start(master: &RedisServer, quorum: u16) -> Result<Self> {
        Self::start_with(master, master.port(), quorum, &[])
    }

    /// The same for another port of the master, such as that for TLS, and with further lines of configuration.
    pub fn start_with(
        master: &RedisServer,
        master_port: u16,
        quorum: u16,
        more: &[String],
    ) -> Result<Self> {
        let folder = scratch::folder("sentinel")?;
        let path = folder.path().to_str().context("the temporary folder's name is not UTF-8")?;
        let (port, name) = (ports::free()?, Self::MASTER_NAME);
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("dir {path}"),
            format!("sentinel monitor {name} 127.0.0.1 {master_port} {quorum}"),
            format!("sentinel down-after-milliseconds {name} 500"),
            format!("sentinel failover-timeout {name} 3000"),
        ];
        if let Some(password) = master.password() {
            lines.push(format!("sentinel auth-pass {name} {password}"));
        }
        lines.extend_from_slice(more);
        let config = lines.join("\n") + "\n";
        let server =
            RedisServer::start_configured(folder, port, &config, &["--sentinel"], None, None)?;
        let sentinel = Self { server, master_password: master.password().map(str::to_owned) };
        sentinel.wait_for_report("status=ok,")?;
        Ok(sentinel)
    }

    /// `redis-sentinel://` with the service's name and the master's password, in fred's form.
    #[must_use]
    pub fn url(&self) -> String {
        let password = (self.master_password.as_ref()).map_or(String::new(), |p| format!(":{p}@"));
        format!(
            "redis-sentinel://{password}127.0.0.1:{}?sentinelServiceName={}",
            self.server.port(),
            Self::MASTER_NAME
        )
    }

    /// The port of the master in the view of this sentinel.
    fn master_port(&self) -> Result<u16> {
        let address =
            self.server.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER_NAME])?;
        let port = address.lines().nth(1).context("the sentinel knows no master")?;
        Ok(port.parse()?)
    }

    /// Makes the sentinel forget the master, which a person does before a hand-over.
    pub fn forget_master(&self) -> Result<()> {
        self.server.cli(&["SENTINEL", "REMOVE", Self::MASTER_NAME]).map(drop)
    }

    /// Makes the sentinel watch this master, after [`forget_master`](Self::forget_master).
    pub fn monitor(&self, master: &RedisServer, quorum: u16) -> Result<()> {
        let (port, quorum) = (master.port().to_string(), quorum.to_string());
        let words = ["SENTINEL", "MONITOR", Self::MASTER_NAME, "127.0.0.1", &port, &quorum];
        self.server.cli(&words).map(drop)
    }

    /// Waits until the sentinel knows this many replicas; without one there is no failover.
    pub fn wait_for_replicas(&self, count: usize) -> Result<()> {
        self.wait_for_report(&format!("slaves={count},"))
    }

    /// Waits until a server other than the one on port `old` is the master, and returns its port.
    pub fn wait_for_failover(&self, old: u16) -> Result<u16> {
        let mut new = old;
        wait::until("a failover", TIMEOUT, || {
            new = self.master_port()?;
            Ok(new != old)
        })?;
        Ok(new)
    }

    /// Waits until the line about the master contains `part`.
    fn wait_for_report(&self, part: &str) -> Result<()> {
        wait::until(part, TIMEOUT, || {
            let info = self.server.cli(&["INFO", "sentinel"])?;
            Ok(info.lines().any(|line| line.starts_with("master0:") && line.contains(part)))
        })
        .context("the sentinel's report on its master")
    }
}

const TIMEOUT: Duration = Duration::from_secs(30);
