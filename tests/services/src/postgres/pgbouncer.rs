//! PgBouncer, a connection pooler in front of PostgreSQL.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{PostgresServer, USER, drop_root, hand_over, private_file};
use crate::install::{self, Program};
use crate::process::ServerProcess;
use crate::{ports, scratch};

/// A PgBouncer on 127.0.0.1; killed when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    process: Option<ServerProcess>,
    port: u16,
    folder: TempDir,
}

/// How long a client keeps its server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects.
    Session,
    /// Until its transaction ends: no session state, no session locks.
    Transaction,
    /// For one statement, so transactions of several statements are not possible.
    Statement,
}

impl PgBouncer {
    /// Starts a pooler in front of `postgres`, with the same authentication.
    pub fn start(postgres: &PostgresServer, mode: PoolMode) -> Result<Self> {
        Self::start_with(postgres, mode, &[])
    }

    /// Starts a pooler with further lines in its configuration, such as `server_login_retry = 1`.
    pub fn start_with(postgres: &PostgresServer, mode: PoolMode, config: &[&str]) -> Result<Self> {
        let mut pooler =
            Self { process: None, port: ports::free()?, folder: scratch::folder("pgbouncer")? };
        hand_over(pooler.folder.path())?;
        pooler.configure(postgres, mode, config)?;
        pooler.launch()?;
        Ok(pooler)
    }

    /// `postgres://postgres:…@127.0.0.1:port/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        let password = PostgresServer::PASSWORD;
        format!("postgres://{USER}:{password}@127.0.0.1:{}/postgres", self.port)
    }

    /// The port, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context(NOT_RUNNING)?.kill()
    }

    /// Starts the pooler again on the same port. A running pooler is stopped first.
    pub fn restart(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            process.stop(Signal::TERM)?;
        }
        self.launch()
    }

    /// Runs SQL through the pooler with `psql`: rows as lines, columns separated by `|`.
    pub fn psql(&self, sql: &str) -> Result<String> {
        super::psql(self.port, "postgres", sql)
    }

    /// Runs one of the pooler's own commands, such as `SHOW POOLS`.
    pub fn admin(&self, command: &str) -> Result<String> {
        super::psql(self.port, "pgbouncer", command)
    }

    /// Returns whether statements that a client has prepared go with it from one server connection to the next.
    pub fn keeps_prepared(&self) -> Result<bool> {
        Ok(self.admin("SHOW CONFIG")?.lines().any(|line| {
            let setting = line.strip_prefix("max_prepared_statements|");
            setting.is_some_and(|setting| !setting.starts_with("0|"))
        }))
    }

    fn configure(&self, postgres: &PostgresServer, mode: PoolMode, config: &[&str]) -> Result<()> {
        let folder = self.folder.path();
        let users = folder.join("users.txt");
        private_file(&users, &format!("\"{USER}\" \"{}\"\n", PostgresServer::PASSWORD))?;
        let more = config.join("\n");
        let config = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={server}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             pool_mode = {mode}\n\
             auth_type = {authentication}\n\
             auth_file = {users}\n\
             admin_users = {USER}\n\
             ignore_startup_parameters = extra_float_digits\n\
             {more}\n",
            server = postgres.port(),
            port = self.port,
            mode = match mode {
                PoolMode::Session => "session",
                PoolMode::Transaction => "transaction",
                PoolMode::Statement => "statement",
            },
            authentication = postgres.authentication().method(),
            users = users.display(),
        );
        private_file(&folder.join("pgbouncer.ini"), &config)
    }

    fn launch(&mut self) -> Result<()> {
        let folder = self.folder.path();
        let mut command = Command::new(install::require(&PGBOUNCER)?);
        command.arg(folder.join("pgbouncer.ini"));
        drop_root(&mut command, folder)?;
        let mut process = ServerProcess::spawn("pgbouncer", command, &folder.join("server.log"))?;
        let answers = || Ok(ports::is_served(self.port) && self.psql("SELECT 1")? == "1");
        process.wait_until_ready(TIMEOUT, answers)?;
        self.process = Some(process);
        Ok(())
    }
}

const PGBOUNCER: Program = Program {
    names: &["pgbouncer"],
    folders: &[],
    package: "pgbouncer",
    otherwise: "install PgBouncer, so that pgbouncer is on PATH",
};

const NOT_RUNNING: &str = "this PgBouncer is not running";
const TIMEOUT: Duration = Duration::from_secs(30);
