//! The options that every subcommand takes.

use std::path::PathBuf;

#[cfg(feature = "log")]
use clap::ArgAction;
use clap::Args;

use crate::exit::Failure;

/// Options that every subcommand takes.
#[derive(Args)]
pub(crate) struct GlobalOptions {
    // Not read by clap's `env`: the help would show the URL, and the help of a job ends up in logs.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "store_file")]
    #[arg(help_heading = "Store", help = STORE, long_help = STORE_AT_LENGTH)]
    pub(crate) store: Option<String>,
    /// A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too
    #[arg(long, global = true, value_name = "PATH", help_heading = "Store")]
    pub(crate) store_file: Option<PathBuf>,
    /// Prints errors only
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Shows what the library logs, such as risks of the store; twice: all of it
    #[cfg(feature = "log")]
    #[arg(long, short, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
}

impl GlobalOptions {
    /// # Errors
    ///
    /// Fails if a store is given that the subcommand would ignore.
    pub(crate) fn expect_no_store(&self, instead: &str) -> Result<(), Failure> {
        let option = match (&self.store, &self.store_file) {
            (None, None) => return Ok(()),
            (Some(_), _) => "--store",
            (None, Some(_)) => "--store-file",
        };
        Err(Failure::usage(format!("{option} has no meaning here: {instead}")))
    }
}

const STORE: &str = "The store: redis://host, postgres://user@host/database, sqlite:///path, etcd://host, firestore://project or s3://bucket";

const STORE_AT_LENGTH: &str = "\
The store: redis://host, postgres://user@host/database, sqlite:///path, etcd://host, firestore://project or s3://bucket. A password in \
it is visible to every user of this machine: put such a URL into SYNCGUARD_STORE or into a file. Default: a \
file of this user.";
