//! Results go to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use crate::escape::escape_json;
use crate::exit::Failure;
use crate::messages::{self, Messages};

/// Prints messages that are not results.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    quiet: bool,
}

impl Output {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Prints a note. Notes show no keys: they end up in the journal and in the mails of cron.
    pub(crate) fn note(self, text: impl Display) {
        if !self.quiet {
            Self::write(&text);
        }
    }

    /// Prints an error.
    #[expect(clippy::unused_self, reason = "so that all messages go through `Output`")]
    pub(crate) fn error(self, text: impl Display) {
        Self::write(&text);
    }

    /// True if only errors are printed.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// A line that is redrawn in place, if standard error is a terminal.
    pub(crate) fn status_line(self) -> Option<StatusLine> {
        (!self.quiet && io::stderr().is_terminal()).then(|| StatusLine(()))
    }

    fn write(text: &dyn Display) {
        // One write, so that a message is dropped as a whole. It never fails.
        let _ = Messages.write_all(format!("syncguard: {text}\n").as_bytes());
    }
}

/// A line of the terminal that is redrawn in place. Dropping it erases the line.
pub(crate) struct StatusLine(());

impl StatusLine {
    /// Shows a text, as much as the terminal is wide: a line that is wrapped could not be erased.
    #[expect(clippy::unused_self, reason = "only the owner of the line writes on it")]
    pub(crate) fn show(&self, text: &str) {
        // A terminal shows `^C` behind the text.
        let columns = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
        let text: String = text.chars().take(columns.saturating_sub(3)).collect();
        // Without the wrapping of lines, which is the usual mode of a terminal.
        let _ = Messages.write_all(format!("\r\x1b[?7l{text}\x1b[K\x1b[?7h").as_bytes());
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        let _ = Messages.write_all(b"\r\x1b[K");
        // A command that starts next may write on the line.
        messages::wait_until_written(Duration::from_millis(100));
    }
}

/// Colors the text if results are shown in color.
pub(crate) fn colored(text: &str, color: AnsiColor) -> String {
    if !has_colors() {
        return text.to_owned();
    }
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{text}{style:#}")
}

/// Returns whether results are shown in color: on a terminal, and without `NO_COLOR`.
pub(crate) fn has_colors() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_plain =
        is_set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !is_plain
}

/// Prints a result for people.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{text}").map_err(Failure::output)
}

/// Prints a result for programs, on one line.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(escape_json(&value.to_string()))
}

/// Prints a result for programs, or else for people.
pub(crate) fn print_as(
    is_json: bool,
    json: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if is_json { print_json(&json()) } else { print(text()) }
}
