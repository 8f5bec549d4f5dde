//! A PostgreSQL server.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    Authentication, PostgresBuilder, USER, drop_root, hand_over, private_file, program, program_in,
};
use crate::process::ServerProcess;
use crate::{ports, scratch};

/// A PostgreSQL server on 127.0.0.1; ended when dropped.
#[derive(Debug)]
pub struct PostgresServer {
    process: Option<ServerProcess>,
    pub(super) port: u16,
    authentication: Authentication,
    /// Its programs, if they are not those of the installation in use.
    pub(super) programs: Option<PathBuf>,
    under: Vec<String>,
    pub(super) folder: TempDir,
}

impl PostgresServer {
    /// The password of the user `postgres`, which only [`Authentication::Scram`] asks for.
    pub const PASSWORD: &'static str = "syncguard";

    /// Options for a server.
    #[must_use]
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// Starts a server with the default options.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// `postgres://postgres:…@127.0.0.1:port/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/postgres", Self::PASSWORD, self.port)
    }

    /// The port, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The authentication of clients.
    #[must_use]
    pub fn authentication(&self) -> Authentication {
        self.authentication
    }

    /// The process id of the postmaster.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.process.as_ref().context(NOT_RUNNING)?.pid())
    }

    /// A fast shutdown: sessions end, transactions are rolled back, and all data is written.
    pub fn stop(&mut self) -> Result<()> {
        self.process.take().context(NOT_RUNNING)?.stop(Signal::INT)
    }

    /// SIGKILL for the postmaster and its children. This is a crash of the machine without the loss of its disk
    /// cache.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context(NOT_RUNNING)?.kill()
    }

    /// Starts the server again with the same port and data, through crash recovery after [`kill`](Self::kill). A
    /// running server is stopped first.
    pub fn restart(&mut self) -> Result<()> {
        if self.process.is_some() {
            self.stop()?;
        }
        self.launch()
    }

    /// SIGSTOP for the postmaster and its children: sessions stay open, and statements get no answer.
    pub fn pause(&mut self) -> Result<()> {
        self.process.as_mut().context(NOT_RUNNING)?.pause()
    }

    /// SIGCONT.
    pub fn resume(&mut self) -> Result<()> {
        self.process.as_mut().context(NOT_RUNNING)?.resume()
    }

    /// Runs SQL with `psql`: rows as lines, columns separated by `|`.
    pub fn psql(&self, sql: &str) -> Result<String> {
        super::psql(self.port, "postgres", sql)
    }

    /// Starts a standby that follows this server, and answers reads.
    pub fn standby(&self) -> Result<Self> {
        let mut standby = Self {
            process: None,
            port: ports::free()?,
            authentication: self.authentication,
            programs: self.programs.clone(),
            under: Vec::new(),
            folder: scratch::folder("postgres-standby")?,
        };
        hand_over(standby.folder.path())?;
        let mut copy = Command::new(program_in(self.programs.as_deref(), "pg_basebackup")?);
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "-h", "127.0.0.1", "-U", USER]);
        copy.args(["-p", &self.port.to_string()]).arg("-D").arg(standby.data());
        run(copy, standby.folder.path())?;
        let own_port = format!("port = {}\n", standby.port);
        File::options()
            .append(true)
            .open(standby.data().join("postgresql.conf"))?
            .write_all(own_port.as_bytes())?;
        standby.launch()?;
        Ok(standby)
    }

    pub(super) fn start_with(options: &PostgresBuilder) -> Result<Self> {
        // This comes first, because the installation creates the user that will own the folder.
        program("initdb")?;
        let mut server = Self {
            process: None,
            port: ports::free()?,
            authentication: options.authentication,
            programs: options.programs.clone(),
            under: options.under.clone(),
            folder: scratch::folder("postgres")?,
        };
        hand_over(server.folder.path())?;
        server.create_cluster(&options.render(server.port))?;
        server.launch()?;
        Ok(server)
    }

    /// The files of a new server, with these settings.
    pub(super) fn create_cluster(&self, settings: &str) -> Result<()> {
        let mut copy = Command::new("cp");
        copy.arg("-R").arg(template(self.programs.as_deref())?).arg(self.data());
        run(copy, self.folder.path())?;
        let method = self.authentication.method();
        let of = |what| format!("host {what} all 127.0.0.1/32 {method}\n");
        // Only pg_upgrade makes a socket.
        let rule = of("all") + &of("replication") + "local all all trust\n";
        private_file(&self.data().join("pg_hba.conf"), &rule)?;
        let mut file = File::options().append(true).open(self.data().join("postgresql.conf"))?;
        Ok(file.write_all(settings.as_bytes())?)
    }

    pub(super) fn launch(&mut self) -> Result<()> {
        let program = program_in(self.programs.as_deref(), "postgres")?;
        let mut words = self.under.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().context("no program")?);
        command.args(words).arg("-D").arg(self.data());
        drop_root(&mut command, self.folder.path())?;
        let log = self.folder.path().join("server.log");
        let mut process = ServerProcess::spawn("postgres", command, &log)?;
        let (pid, data) = (process.pid(), self.data());
        process.wait_until_ready(TIMEOUT, || Ok(is_ready(&data, pid)))?;
        self.process = Some(process);
        Ok(())
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // A killed server would leave a shared memory segment behind, and a machine has a limited number of them.
        if let Some(process) = self.process.take() {
            let _ = process.stop(Signal::QUIT);
        }
    }
}

/// The files of a new database cluster, for all servers of this process with these programs: `initdb` takes three times
/// as long as a copy.
fn template(programs: Option<&Path>) -> Result<PathBuf> {
    static TEMPLATES: Mutex<Option<HashMap<PathBuf, TempDir>>> = Mutex::new(None);
    let initdb = program_in(programs, "initdb")?;
    let mut templates = TEMPLATES.lock().unwrap_or_else(PoisonError::into_inner);
    let templates = templates.get_or_insert_default();
    if let Some(folder) = templates.get(&initdb) {
        return Ok(folder.path().join("data"));
    }
    let folder = scratch::folder("postgres-template")?;
    hand_over(folder.path())?;
    let (password, data) = (folder.path().join("password"), folder.path().join("data"));
    private_file(&password, PostgresServer::PASSWORD)?;
    let mut command = Command::new(&initdb);
    command
        .args(["--no-sync", "--encoding=UTF8", "--locale=C"])
        .args(["--username", USER, "--auth-local=trust"])
        // Before 14, this makes the server keep passwords for SCRAM.
        .args(["--auth-host", Authentication::Scram.method()])
        .arg("--pwfile")
        .arg(&password)
        .arg("--pgdata")
        .arg(&data);
    run(command, folder.path())?;
    templates.insert(initdb, folder);
    Ok(data)
}

/// Runs a program as the server's user.
pub(super) fn run(mut command: Command, folder: &Path) -> Result<()> {
    drop_root(&mut command, folder)?;
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// The file that `pg_ctl` reads: the first line is the postmaster's process id, the eighth its state.
fn is_ready(data: &Path, pid: u32) -> bool {
    let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = state.lines().map(str::trim);
    lines.next() == Some(&pid.to_string()) && lines.nth(6) == Some("ready")
}

const NOT_RUNNING: &str = "this PostgreSQL server is not running";
const TIMEOUT: Duration = Duration::from_secs(60);
