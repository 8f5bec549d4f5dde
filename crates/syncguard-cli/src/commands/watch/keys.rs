//! The keys that are pressed on the terminal.

use std::future::pending;
use std::io::{IsTerminal as _, stdin};
use std::thread;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::state::Pressed;
use crate::exit::Failure;

/// The locks that Page Up and Page Down scroll by.
const PAGE: usize = 10;

/// Receives the keys that are pressed.
pub(super) struct Keys(Option<UnboundedReceiver<Pressed>>);

impl Keys {
    /// Reads keys in a thread of its own, which ends with the process. Without a terminal as
    /// standard input no key ever comes.
    pub(super) fn read() -> Result<Self, Failure> {
        if !stdin().is_terminal() {
            return Ok(Self(None));
        }
        let (sender, receiver) = unbounded_channel();
        let reader = thread::Builder::new().name("keys".to_owned()).spawn(move || {
            while let Ok(event) = event::read() {
                if let Some(pressed) = pressed(&event)
                    && sender.send(pressed).is_err()
                {
                    return;
                }
            }
        });
        reader.map_err(|error| Failure::system("a thread for keys does not start", &error))?;
        Ok(Self(Some(receiver)))
    }

    /// Waits for the next key.
    ///
    /// # Cancel safety
    ///
    /// Safe: no key is lost.
    pub(super) async fn next(&mut self) -> Pressed {
        if let Some(receiver) = &mut self.0
            && let Some(pressed) = receiver.recv().await
        {
            return pressed;
        }
        pending().await
    }
}

fn pressed(event: &Event) -> Option<Pressed> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release
        || key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
    {
        return None;
    }
    match key.code {
        KeyCode::Char(char) => Some(Pressed::Char(char)),
        KeyCode::Enter => Some(Pressed::Enter),
        KeyCode::Backspace => Some(Pressed::Backspace),
        KeyCode::Esc => Some(Pressed::Escape),
        KeyCode::Up => Some(Pressed::Up(1)),
        KeyCode::Down => Some(Pressed::Down(1)),
        KeyCode::PageUp => Some(Pressed::Up(PAGE)),
        KeyCode::PageDown => Some(Pressed::Down(PAGE)),
        _ => None,
    }
}
