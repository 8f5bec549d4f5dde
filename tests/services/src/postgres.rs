//! PostgreSQL, and PgBouncer or pgpool-II in front of it.

mod config;
mod pgbouncer;
mod pgpool;
mod server;
mod upgrade;

pub use config::{Authentication, PostgresBuilder};
pub use pgbouncer::{PgBouncer, PoolMode};
pub use pgpool::PgPool;
pub use server::PostgresServer;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::install::{self, Program};

/// The database user of all servers.
const USER: &str = "postgres";

const INITDB: Program = Program {
    names: &["initdb"],
    // Debian keeps the programs outside PATH, in one folder for each version.
    folders: &["/usr/lib/postgresql/*/bin"],
    package: "postgresql",
    otherwise: "install PostgreSQL 14 or newer, so that initdb and postgres are on PATH",
};

// Some packages have the server alone.
const PSQL: Program = Program { names: &["psql"], ..INITDB };

/// A program of the PostgreSQL installation in use.
pub fn program(name: &str) -> Result<PathBuf> {
    Ok(install::require(&INITDB)?.with_file_name(name))
}

/// A program in this folder, or of the installation in use.
fn program_in(folder: Option<&Path>, name: &str) -> Result<PathBuf> {
    folder.map_or_else(|| program(name), |folder| Ok(folder.join(name)))
}

/// PostgreSQL and PgBouncer refuse to be root.
fn drop_root(command: &mut Command, folder: &Path) -> Result<()> {
    if let Some((user, group)) = install::unprivileged_user()? {
        command.uid(user).gid(group);
    }
    // The current folder may be closed to that user.
    command.current_dir(folder);
    Ok(())
}

/// Makes the server's user the owner of a file or folder.
fn hand_over(path: &Path) -> Result<()> {
    if let Some((user, group)) = install::unprivileged_user()? {
        std::os::unix::fs::chown(path, Some(user), Some(group))
            .with_context(|| format!("cannot give {} to the server's user", path.display()))?;
    }
    Ok(())
}

/// Writes a file that only the server's user can read.
fn private_file(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    hand_over(path)
}

/// Runs SQL with `psql` against the server on `port`: rows as lines, columns separated by `|`.
fn psql(port: u16, database: &str, sql: &str) -> Result<String> {
    let output = Command::new(install::require(&PSQL)?)
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", USER])
        .args(["-p", &port.to_string(), "-d", database, "-c", sql])
        .env("PGPASSWORD", PostgresServer::PASSWORD)
        .env("PGCONNECT_TIMEOUT", "10")
        .output()
        .context("cannot run psql")?;
    ensure!(
        output.status.success(),
        "psql: {sql}: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
