//! Where words go: results to the standard output, everything else to the standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use crate::unseen;

/// What is said besides results.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    quiet: bool,
}

impl Output {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Something to know. No keys: this ends up in the journal and in the mails of cron.
    pub(crate) fn note(self, text: impl Display) {
        if !self.quiet {
            Self::write(&text);
        }
    }

    /// Something that went wrong.
    #[expect(clippy::unused_self, reason = "so that nobody prints past the one who knows how")]
    pub(crate) fn error(self, text: impl Display) {
        Self::write(&text);
    }

    /// A line on the terminal that changes, if somebody watches.
    pub(crate) fn line(self) -> Option<Line> {
        (!self.quiet && io::stderr().is_terminal()).then(|| Line(()))
    }

    fn write(text: &dyn Display) {
        // Nobody is left to tell if it fails.
        let _ = writeln!(io::stderr().lock(), "syncguard: {text}");
    }
}

/// A line of the terminal that is written over and over. Dropping it takes it away.
pub(crate) struct Line(());

impl Line {
    #[expect(clippy::unused_self, reason = "only who has the line writes on it")]
    pub(crate) fn show(&self, text: &str) {
        // Nobody is left to tell if it fails.
        let _ = write!(io::stderr().lock(), "\r{text}\x1b[K");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = write!(io::stderr().lock(), "\r\x1b[K");
    }
}

/// Text in a colour, where somebody sees it and wants it.
pub(crate) fn painted(text: &str, color: AnsiColor) -> String {
    if !has_colors() {
        return text.to_owned();
    }
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{text}{style:#}")
}

/// Whether results are seen by people with colours: a terminal, and no `NO_COLOR`.
fn has_colors() -> bool {
    let says = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_plain = says("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !is_plain
}

/// Prints a result for people.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints a result for programs: one line.
pub(crate) fn print_json(value: &Value) -> io::Result<()> {
    print(unseen::for_programs(&value.to_string()))
}
