//! MariaDB, for the dialect of MySQL.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::install::{self, Program};
use crate::process::ServerProcess;
use crate::{ports, scratch};

const SERVER: Program = Program {
    names: &["mariadbd"],
    folders: &["/usr/sbin"],
    package: "mariadb-server",
    otherwise: "install MariaDB 10.5 or newer, so that mariadbd is on PATH",
};

// Both come with the server.
const CLIENT: Program = Program { names: &["mariadb"], ..SERVER };
const INSTALL: Program = Program { names: &["mariadb-install-db"], ..SERVER };

const TIMEOUT: Duration = Duration::from_secs(120);

/// A MariaDB server on 127.0.0.1 with the database `test`; killed when dropped.
#[derive(Debug)]
pub struct MariadbServer {
    /// The first field, so that the server is gone before its folder.
    process: ServerProcess,
    client: PathBuf,
    port: u16,
    _folder: TempDir,
}

impl MariadbServer {
    /// Starts a server with the default options, which does not wait for the disk.
    pub fn start() -> Result<Self> {
        let server = install::require(&SERVER)?;
        let client = install::find(&CLIENT).context("the client of MariaDB")?;
        let (folder, port) = (scratch::folder("mariadb")?, ports::free()?);
        let data = folder.path().join("data");
        // A server that starts removes the temporary tables of all others that have its folder for them.
        let temporary = format!("--tmpdir={}", folder.path().display());
        let mut install = Command::new(install::find(&INSTALL).context("mariadb-install-db")?);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--user=root"]);
        install.arg(format!("--datadir={}", data.display())).arg(&temporary);
        let output = install.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut command = Command::new(server);
        command
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1"])
            .args(["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"])
            .arg(format!("--port={port}"))
            .arg(temporary)
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", folder.path().join("socket").display()));
        let log = folder.path().join("server.log");
        let process = ServerProcess::spawn("mariadbd", command, &log)?;
        let mut server = Self { process, client, port, _folder: folder };
        let (client, port) = (server.client.clone(), port);
        let probe =
            || Ok(run(&client, port, "mysql", "CREATE DATABASE IF NOT EXISTS test").is_ok());
        server.process.wait_until_ready(TIMEOUT, probe)?;
        Ok(server)
    }

    /// Runs SQL in one session of the client `mariadb`: rows as lines, columns separated by tabs. After an error it goes
    /// on with the next statement if there is one, and returns what it printed.
    pub fn sql(&self, sql: &str) -> Result<String> {
        run(&self.client, self.port, "test", sql)
    }
}

fn run(client: &Path, port: u16, database: &str, sql: &str) -> Result<String> {
    let mut child = Command::new(client)
        .args(["--no-defaults", "-h", "127.0.0.1", "-u", "root", "-N", "-B", "--force", "-P"])
        .args([&port.to_string(), "-D", database])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run mariadb")?;
    child.stdin.take().context("a pipe")?.write_all(sql.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "mariadb: {said}");
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned() + &said)
}
