//! The command line: all subcommands and their options.

use clap::{Parser, Subcommand};

use crate::global_options::GlobalOptions;
use crate::store::Access;
use crate::{commands, run};

/// Locks for shells, cron, systemd and CI: one holder at a time, on any machine.
#[derive(Parser)]
#[command(name = "syncguard", version, after_help = EXIT_STATUSES, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(feature = "log")]
impl Cli {
    /// True if the program runs commands until a signal.
    pub(crate) fn is_loop(&self) -> bool {
        matches!(&self.command, Command::Run(options) if options.is_loop())
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Options),
    Acquire(commands::acquire::Options),
    Extend(commands::extend::Options),
    Release(commands::release::Options),
    Status(commands::status::Options),
    #[cfg(feature = "ticks")]
    Tick(commands::tick::Options),
    Ls(commands::ls::Options),
    Watch(commands::watch::Options),
    Export(commands::export::Options),
    Fence(commands::fence::Options),
    CopyFences(commands::copy_fences::Options),
    Setup(commands::setup::Options),
    Doctor(commands::doctor::Options),
    #[cfg(feature = "generate")]
    Completions(commands::generate::CompletionsOptions),
    #[cfg(feature = "generate")]
    Man(commands::generate::ManOptions),
}

impl Command {
    /// The use that the command makes of the store that the global options name.
    pub(crate) fn access(&self) -> Access {
        match self {
            Self::Run(options) if options.has_schedule() => Access::Share,
            Self::Run(_) | Self::Acquire(_) => Access::Lock,
            Self::Fence(options) if options.raises() => Access::Share,
            _ => Access::Look,
        }
    }
}

const EXIT_STATUSES: &str = "\
Exit statuses:
  0    done; `run` ends as its command, with 128+N where signal N ended it
  64   wrong use: a bad option, key, duration or URL
  69   the store is away
  70   the store holds what cannot be read, or a defect
  71   the system refused something, such as a process
  75   another process holds the lock (see --conflict-exit-code), or
       `ls --longer-than` found a lock, or `tick --exit-code` an overdue
       tick
  76   the lock was lost while the command ran, or is no longer held
  77   the store refuses this user
  78   `doctor` says that the store is not safe for locks
  79   `run --tick`: the tick was run before, by this or another process
  80   `run --tick`: the tick is too early by the store's clock; this
       comes before 75
  81   `run --tick`: no tick is due, or the last one is too late
  82   `fence find` knows no such key, or `release --holder` no such lock
  126  the command cannot be executed
  127  the command was not found
  141  the reader of the output has gone

The store is --store, --store-file, the file named by SYNCGUARD_STORE_FILE,
SYNCGUARD_STORE, or a file of this user, $XDG_STATE_HOME/syncguard/locks.db.";
