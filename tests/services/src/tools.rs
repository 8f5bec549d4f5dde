//! Programs that tests use beside the servers: [`require`](crate::install::require) gives their path.

use crate::install::Program;

/// A terminal that nobody looks at.
pub const TMUX: Program = tool(&["tmux"], "tmux");

/// SQLite's shell.
pub const SQLITE3: Program = tool(&["sqlite3"], "sqlite3");

/// A shell, whose completions are read by it.
pub const ZSH: Program = tool(&["zsh"], "zsh");

/// A shell, whose completions are read by it.
pub const FISH: Program = tool(&["fish"], "fish");

/// It checks units.
pub const SYSTEMD_ANALYZE: Program = tool(&["systemd-analyze"], "systemd");

/// A daemon that runs the lines of a crontab, as root.
pub const CRON: Program = tool(&["cron"], "cron");

/// It shows programs another wall clock.
pub const FAKETIME: Program = tool(&["faketime"], "faketime");

/// Namespaces of its own for a program.
pub const UNSHARE: Program = tool(&["unshare"], "util-linux");

const fn tool(names: &'static [&'static str], package: &'static str) -> Program {
    Program { names, folders: &[], package, otherwise: "install it, so that it is on PATH" }
}
