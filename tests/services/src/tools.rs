//! Programs that tests use beside the servers. [`require`](crate::install::require) returns their path.

use crate::install::Program;

/// A terminal in the background.
pub const TMUX: Program = tool(&["tmux"], "tmux");

/// SQLite's shell.
pub const SQLITE3: Program = tool(&["sqlite3"], "sqlite3");

/// A shell that reads the completions.
pub const ZSH: Program = tool(&["zsh"], "zsh");

/// A shell that reads the completions.
pub const FISH: Program = tool(&["fish"], "fish");

/// Checks units.
pub const SYSTEMD_ANALYZE: Program = tool(&["systemd-analyze"], "systemd");

/// Runs the Python programs of the guide.
pub const PYTHON3: Program = tool(&["python3"], "python3");

/// Gets packages of its registry.
pub const NPM: Program = tool(&["npm"], "npm");

/// Gives a program another wall clock.
pub const FAKETIME: Program = tool(&["faketime"], "faketime");

/// Gives a program other users and rights.
pub const SETPRIV: Program = tool(&["setpriv"], "util-linux");

/// Gives a program its own namespaces.
pub const UNSHARE: Program = tool(&["unshare"], "util-linux");

const fn tool(names: &'static [&'static str], package: &'static str) -> Program {
    Program { names, folders: &[], package, otherwise: "install it, so that it is on PATH" }
}
