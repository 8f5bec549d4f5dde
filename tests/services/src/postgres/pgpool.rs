//! pgpool-II, a pooler that sends reads to a standby.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;

use super::{PostgresServer, USER, drop_root, hand_over, private_file};
use crate::install::{self, Program};
use crate::process::ServerProcess;
use crate::{ports, scratch};

/// A pgpool-II on 127.0.0.1; killed when dropped.
#[derive(Debug)]
pub struct PgPool {
    /// The first field, so that the server is gone before its folder.
    process: ServerProcess,
    port: u16,
    _folder: TempDir,
}

impl PgPool {
    /// Starts a pooler in front of a primary and its [standby](PostgresServer::standby), with load balancing.
    pub fn start(primary: &PostgresServer, standby: &PostgresServer) -> Result<Self> {
        let program = install::require(&PGPOOL)?;
        let (port, pcp_port) = (ports::free()?, ports::free()?);
        let folder = scratch::folder("pgpool")?;
        hand_over(folder.path())?;
        let here = folder.path().display();
        let mut config = format!(
            "backend_clustering_mode = 'streaming_replication'\n\
             listen_addresses = '127.0.0.1'\n\
             port = {port}\n\
             unix_socket_directories = '{here}'\n\
             pcp_listen_addresses = ''\n\
             pcp_port = {pcp_port}\n\
             pcp_socket_dir = '{here}'\n\
             pid_file_name = '{here}/pid'\n\
             logdir = '{here}'\n\
             load_balance_mode = on\n\
             num_init_children = 64\n\
             sr_check_period = 1\n\
             sr_check_user = '{USER}'\n\
             sr_check_database = '{USER}'\n"
        );
        // Reads go to the standby alone.
        for (number, (server, weight)) in [(primary, 0), (standby, 1)].into_iter().enumerate() {
            write!(
                config,
                "backend_hostname{number} = '127.0.0.1'\n\
                 backend_port{number} = {}\n\
                 backend_weight{number} = {weight}\n\
                 backend_flag{number} = 'DISALLOW_TO_FAILOVER'\n",
                server.port()
            )?;
        }
        let file = folder.path().join("pgpool.conf");
        private_file(&file, &config)?;
        let mut command = Command::new(program);
        command.arg("-n").arg("-f").arg(&file);
        drop_root(&mut command, folder.path())?;
        let log = folder.path().join("server.log");
        let mut process = ServerProcess::spawn("pgpool", command, &log)?;
        // Its function is stable. A call of a volatile one would go to the primary.
        let read = "SELECT current_setting('transaction_read_only')";
        let balances = || Ok(ports::is_served(port) && super::psql(port, USER, read)? == "on");
        process.wait_until_ready(TIMEOUT, balances)?;
        Ok(Self { process, port, _folder: folder })
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `postgres://postgres:…@127.0.0.1:port/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        let password = PostgresServer::PASSWORD;
        format!("postgres://{USER}:{password}@127.0.0.1:{}/postgres", self.port)
    }
}

const PGPOOL: Program = Program {
    names: &["pgpool"],
    folders: &[],
    package: "pgpool2",
    otherwise: "install pgpool-II, so that pgpool is on PATH",
};

const TIMEOUT: Duration = Duration::from_secs(60);
