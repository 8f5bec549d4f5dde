//! Another release in the place of a server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::server::run;
use super::{PostgresServer, USER, program_in};
use crate::ports;

impl PostgresServer {
    /// Stops the server, and starts a newer release in its place, with the data that `pg_upgrade` takes over.
    pub fn upgrade(&mut self, programs: Option<PathBuf>) -> Result<()> {
        self.stop()?;
        let old = self.folder.path().join("old");
        let settings = fs::read_to_string(self.data().join("postgresql.conf"))?;
        let ours = settings.rfind("\nlisten_addresses").map_or("", |at| &settings[at..]);
        fs::rename(self.data(), &old)?;
        let former = std::mem::replace(&mut self.programs, programs);
        self.create_cluster(ours)?;
        // The clusters have to agree, and PostgreSQL 18 makes new ones with checksums.
        let mut checksums = Command::new(program_in(self.programs.as_deref(), "pg_checksums")?);
        checksums.args(["--disable", "--no-sync", "--pgdata"]).arg(self.data());
        run(checksums, self.folder.path())?;
        let folder_of = |programs: Option<&_>| -> Result<_> {
            Ok(program_in(programs, "postgres")?.with_file_name(""))
        };
        let mut upgrade = Command::new(program_in(self.programs.as_deref(), "pg_upgrade")?);
        upgrade.arg("--old-datadir").arg(&old).arg("--new-datadir").arg(self.data());
        upgrade.arg("--old-bindir").arg(folder_of(former.as_deref())?);
        upgrade.arg("--new-bindir").arg(folder_of(self.programs.as_deref())?);
        upgrade.args(["--username", USER, "--socketdir"]).arg(self.folder.path());
        for option in ["--old-port", "--new-port"] {
            upgrade.args([option, &ports::free()?.to_string()]);
        }
        run(upgrade, self.folder.path())?;
        self.launch()
    }

    /// Copies all tables to an empty server of a newer release, by `pg_dump` and `psql` of that release.
    pub fn copy_to(&self, newer: &Self) -> Result<()> {
        let dump = newer.folder.path().join("dump.sql");
        let of = |name, server: &Self| -> Result<_> {
            let mut command = Command::new(program_in(newer.programs.as_deref(), name)?);
            command.args(["--host=127.0.0.1", "--username", USER, "--port"]);
            command.arg(server.port.to_string()).arg("--file").arg(&dump);
            Ok(command)
        };
        run(of("pg_dump", self)?, newer.folder.path())?;
        let mut restore = of("psql", newer)?;
        restore.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]);
        run(restore, newer.folder.path())
    }
}
