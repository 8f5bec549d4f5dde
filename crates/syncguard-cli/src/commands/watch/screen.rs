//! The screen of the terminal.

use std::io::{self, IsTerminal as _, Stdout, Write as _, stderr, stdin, stdout};

use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use crate::messages;

/// The alternate screen of the terminal, which gives each key to this program at once. Dropping it
/// brings the normal screen and its modes back.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    _restored: Restored,
    /// Messages come on the normal screen.
    _messages: Option<messages::KeptBack>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let messages = stderr().is_terminal().then(messages::hold);
        let restored = Restored { modes: with_keys_at_once() };
        // The alternate screen, and no cursor.
        write("\x1b[?1049h\x1b[?25l\x1b[2J")?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(Self { terminal, _restored: restored, _messages: messages })
    }

    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.terminal.draw(render).map(drop)
    }
}

/// Restores the terminal when it is dropped.
struct Restored {
    modes: Option<Termios>,
}

impl Drop for Restored {
    fn drop(&mut self) {
        // If the terminal is gone, the failure cannot be reported either.
        let _ = write("\x1b[0m\x1b[?25h\x1b[?1049l");
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
        }
    }
}

/// Makes the terminal give each key at once, without showing it. Ctrl-C and Ctrl-Z stay signals.
/// Returns the modes before; `None` if standard input is no terminal.
fn with_keys_at_once() -> Option<Termios> {
    let before = tcgetattr(stdin()).ok()?;
    let mut modes = before.clone();
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(stdin(), OptionalActions::Now, &modes).ok()?;
    Some(before)
}

fn write(text: &str) -> io::Result<()> {
    let mut terminal = stdout().lock();
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}
