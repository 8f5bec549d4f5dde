//! A Redis server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{CLI, RedisBuilder, SERVER};
use crate::process::ServerProcess;
use crate::{install, ports, scratch, wait};

/// A Redis server on 127.0.0.1; killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    /// The first field, so that the server is gone before its folder.
    process: Option<ServerProcess>,
    is_paused: bool,
    port: u16,
    password: Option<String>,
    arguments: &'static [&'static str],
    /// Its programs, if they are not those of the system.
    programs: Option<PathBuf>,
    folder: TempDir,
}

impl RedisServer {
    /// Options for a server.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Starts a server with the default options.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// `redis://[:password@]127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// The port, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password for clients.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The folder with the server's configuration, log and data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process id.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.process.as_ref().context(NOT_RUNNING)?.pid())
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn stop(&mut self) -> Result<()> {
        self.process.take().context(NOT_RUNNING)?.stop(Signal::TERM)
    }

    /// SIGKILL: data that is not on disk is lost.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context(NOT_RUNNING)?.kill()
    }

    /// Starts the server again with the same port and folder. A running server is stopped first.
    pub fn restart(&mut self) -> Result<()> {
        if self.process.is_some() {
            self.stop()?;
        }
        self.launch()
    }

    /// Starts another release with the same port and folder in the place of this server.
    pub fn upgrade(&mut self, programs: Option<PathBuf>) -> Result<()> {
        self.programs = programs;
        self.restart()
    }

    /// Makes a replica the master without the loss of a write, and this server its replica.
    pub fn fail_over_to(&self, replica: &Self) -> Result<()> {
        let port = replica.port.to_string();
        self.cli(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "20000"])?;
        replica.wait_for_info("replication", "role:master")
    }

    /// Returns true if the server runs and is not stopped.
    pub(super) fn is_awake(&self) -> bool {
        self.process.is_some() && !self.is_paused
    }

    /// SIGSTOP: connections stay open, and commands get no answer.
    pub fn pause(&mut self) -> Result<()> {
        self.process.as_mut().context(NOT_RUNNING)?.pause()?;
        self.is_paused = true;
        Ok(())
    }

    /// SIGCONT.
    pub fn resume(&mut self) -> Result<()> {
        self.process.as_mut().context(NOT_RUNNING)?.resume()?;
        self.is_paused = false;
        Ok(())
    }

    /// Runs one command with `redis-cli` and returns its raw output, without the last line break.
    pub fn cli(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(install::require(&CLI)?)
            .args(["-e", "-h", "127.0.0.1", "-p"])
            .arg(self.port.to_string())
            .args(arguments)
            .envs(self.password.iter().map(|password| ("REDISCLI_AUTH", password)))
            .output()
            .context("cannot run redis-cli")?;
        let text = String::from_utf8(output.stdout)?.trim_end().to_owned();
        ensure!(
            output.status.success(),
            "redis-cli {}: {text}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        Ok(text)
    }

    pub(super) fn start_with(options: &RedisBuilder) -> Result<Self> {
        let folder = scratch::folder("redis")?;
        let port = ports::free()?;
        let path = folder.path().to_str().context("the temporary folder's name is not UTF-8")?;
        let config = options.render(port, path);
        let password = options.password.clone();
        let programs = options.programs.clone();
        let server = Self::start_configured(folder, port, &config, &[], password, programs)?;
        if options.is_replica {
            server.wait_for_info("replication", "master_link_status:up")?;
        }
        Ok(server)
    }

    /// Starts the server that `config` describes. The file is written once, because Redis itself rewrites it after a
    /// failover.
    pub(super) fn start_configured(
        folder: TempDir,
        port: u16,
        config: &str,
        arguments: &'static [&'static str],
        password: Option<String>,
        programs: Option<PathBuf>,
    ) -> Result<Self> {
        let (process, is_paused) = (None, false);
        let mut server = Self { process, is_paused, port, password, arguments, programs, folder };
        fs::write(server.config_file(), config)?;
        server.launch()?;
        Ok(server)
    }

    /// Waits until a section of `INFO` has the line `line`.
    pub(super) fn wait_for_info(&self, section: &str, line: &str) -> Result<()> {
        wait::until(line, TIMEOUT, || {
            let info = self.cli(&["INFO", section])?;
            Ok(info.lines().any(|found| found.trim_end() == line))
        })
        .with_context(|| format!("Redis on port {}", self.port))
    }

    fn launch(&mut self) -> Result<()> {
        let mut command = Command::new(install::require_in(self.programs.as_deref(), &SERVER)?);
        command.arg(self.config_file()).args(self.arguments);
        let log = self.folder.path().join("server.log");
        let mut process = ServerProcess::spawn("redis-server", command, &log)?;
        process.wait_until_ready(TIMEOUT, || self.answers())?;
        self.process = Some(process);
        self.is_paused = false;
        Ok(())
    }

    /// Returns true if the server has loaded its data.
    fn answers(&self) -> Result<bool> {
        if !ports::is_served(self.port) {
            return Ok(false);
        }
        match self.cli(&["PING"]) {
            // A replica without its master's data reports "down", although it runs.
            Err(error) if !error.to_string().contains("MASTERDOWN") => Err(error),
            _ => Ok(true),
        }
    }

    fn config_file(&self) -> PathBuf {
        self.folder.path().join("redis.conf")
    }
}

const NOT_RUNNING: &str = "this Redis server is not running";
const TIMEOUT: Duration = Duration::from_secs(30);
