//! Asks before a lock is taken away.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::options::Options;
use crate::exit::Failure;
use crate::messages;

/// Returns whether the locks may be taken away. Asks on a terminal unless `--yes` is given. A thread
/// of its own reads the answer, so that the runtime is not blocked.
pub(super) async fn is_confirmed(options: &Options, question: String) -> Result<bool, Failure> {
    if options.yes || !io::stdin().is_terminal() {
        return Ok(true);
    }
    let asked = tokio::task::spawn_blocking(move || {
        messages::finish();
        let mut terminal = io::stderr().lock();
        write!(terminal, "{question} [y/N] ")?;
        terminal.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
    });
    asked
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error: io::Error| Failure::system("the terminal cannot be read", &error))
}
