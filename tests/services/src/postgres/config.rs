//! The options of a server.

use std::path::PathBuf;

use anyhow::Result;

use super::PostgresServer;

/// Options for a [`PostgresServer`]. Unset options have PostgreSQL's defaults, `fsync` included.
#[derive(Debug, Clone, Default)]
pub struct PostgresBuilder {
    pub(super) authentication: Authentication,
    pub(super) under: Vec<String>,
    extra: Vec<String>,
    pub(super) programs: Option<PathBuf>,
}

/// The authentication of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Nothing.
    #[default]
    Trust,
    /// The password, by SCRAM-SHA-256.
    Scram,
}

impl Authentication {
    /// The name in `pg_hba.conf`.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
        }
    }
}

impl PostgresBuilder {
    /// Sets the authentication of clients.
    #[must_use]
    pub fn authentication(mut self, authentication: Authentication) -> Self {
        self.authentication = authentication;
        self
    }

    /// Runs the programs in this folder, or those of the installation in use.
    #[must_use]
    pub fn programs(self, programs: Option<PathBuf>) -> Self {
        Self { programs, ..self }
    }

    /// Adds a line to `postgresql.conf`.
    #[must_use]
    pub fn config(mut self, line: &str) -> Self {
        self.extra.push(line.to_owned());
        self
    }

    /// Runs the server under another program, such as valgrind: the words before its own command line. The program has to
    /// become the server's process.
    #[must_use]
    pub fn under(self, words: &[&str]) -> Self {
        Self { under: words.iter().map(|&word| word.to_owned()).collect(), ..self }
    }

    /// Makes a database cluster, starts its server and waits until it accepts connections.
    pub fn start(self) -> Result<PostgresServer> {
        PostgresServer::start_with(&self)
    }

    /// The lines added to `postgresql.conf`.
    pub(super) fn render(&self, port: u16) -> String {
        let mut lines = vec![
            String::new(),
            "listen_addresses = '127.0.0.1'".to_owned(),
            format!("port = {port}"),
            // Two servers cannot share a socket's folder, and no test needs a socket.
            "unix_socket_directories = ''".to_owned(),
        ];
        lines.extend(self.extra.iter().cloned());
        lines.join("\n") + "\n"
    }
}
