//! The command line: global options and subcommands.

use std::path::PathBuf;

#[cfg(feature = "log")]
use clap::ArgAction;
use clap::{Args, Parser, Subcommand};

use crate::exit::Failure;
use crate::{commands, run};

/// Locks for shells, cron, systemd and CI: one holder at a time, on any machine.
#[derive(Parser)]
#[command(name = "syncguard", version, after_help = EXIT_STATUSES, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every subcommand takes.
#[derive(Args)]
pub(crate) struct Common {
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

impl Common {
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

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Options),
    Status(commands::status::Options),
    Ls(commands::ls::Options),
    Watch(commands::watch::Options),
    Release(commands::release::Options),
    Fence(commands::fence::Options),
    CopyFences(commands::copy_fences::Options),
    Doctor(commands::doctor::Options),
    /// Prints the completions of a shell
    #[cfg(feature = "generate")]
    #[command(hide = true)]
    Completions(commands::generate::Options),
    /// Prints the man page
    #[cfg(feature = "generate")]
    #[command(hide = true)]
    Man(commands::generate::ManOptions),
}

const STORE: &str =
    "The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project";

const STORE_AT_LENGTH: &str = "\
The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project. A password in \
it is visible to every user of this machine: put such a URL into SYNCGUARD_STORE or into a file. Default: a \
file of this user.";

const EXIT_STATUSES: &str = "\
Exit statuses:
  0    done; `run` ends as its command, with 128+N where signal N ended it
  64   wrong use: a bad option, key, duration or URL
  69   the store is away
  70   the store holds what cannot be read, or a defect
  71   the system refused something, such as a process
  75   another process holds the lock (see `run --conflict-exit-code`)
  76   the lock was lost while the command ran
  77   the store refuses this user
  78   `doctor` says that the store is not safe for locks
  126  the command cannot be executed
  127  the command was not found

The store is --store, --store-file, the file named by SYNCGUARD_STORE_FILE,
SYNCGUARD_STORE, or a file of this user, $XDG_STATE_HOME/syncguard/locks.db.";
