//! A screen of the terminal that is redrawn in place.

use std::io::{self, Write as _};

use rustix::termios::tcgetwinsize;

/// The alternate screen of the terminal. Dropping it brings the normal screen back.
pub(super) struct Screen(());

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        // The alternate screen, no cursor, and lines that are cut instead of wrapped.
        write("\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J")?;
        Ok(Self(()))
    }

    /// Draws lines over the previous ones. The last line counts the lines that do not fit.
    #[expect(clippy::unused_self, reason = "only the owner of the screen draws on it")]
    pub(super) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let rows = tcgetwinsize(io::stdout()).map_or(24, |size| usize::from(size.ws_row.max(2)));
        let mut frame = String::from("\x1b[H");
        for (number, line) in fitting(lines, rows).iter().enumerate() {
            if number > 0 {
                frame.push_str("\r\n");
            }
            frame.push_str(line);
            frame.push_str("\x1b[K");
        }
        // Erases the rest of a longer frame.
        frame.push_str("\x1b[J");
        write(&frame)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, the failure cannot be reported either.
        let _ = write("\x1b[?7h\x1b[?25h\x1b[?1049l");
    }
}

fn fitting(lines: &[String], rows: usize) -> Vec<String> {
    if lines.len() <= rows {
        return lines.to_vec();
    }
    let shown = rows.saturating_sub(1);
    let rest = lines.len() - shown;
    lines.iter().take(shown).cloned().chain([format!("… and {rest} more")]).collect()
}

fn write(text: &str) -> io::Result<()> {
    let mut terminal = io::stdout().lock();
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn what_does_not_fit_is_counted() {
        let lines: Vec<String> = (0..5).map(|number| number.to_string()).collect();
        assert_eq!(fitting(&lines, 5), lines);
        assert_eq!(fitting(&lines, 3), ["0", "1", "… and 3 more"]);
    }
}
