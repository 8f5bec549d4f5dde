//! `watch` in a terminal.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tokio::time::{MissedTickBehavior, interval};

use super::keys::Keys;
use super::lock::Lock;
use super::screen::Screen;
use super::source::Source;
use super::state::State;
use super::view::draw;
use crate::commands::listing::{self, Listing};
use crate::escape::escape_for_terminal;
use crate::exit::{Failure, Status};
use crate::messages;
use crate::output::has_colors;
use crate::signals::{Event, Signals, asks_to_end};
use crate::store::{Store, without_password};
use crate::time::{now, utc_now};

pub(super) async fn run(
    store: &Store,
    source: &Source<'_>,
    first: Listing,
    mut signals: Signals,
) -> Result<Status, Failure> {
    let mut state = State {
        store: escape_for_terminal(&without_password(store.expose())),
        prefix: escape_for_terminal(source.prefix()),
        interval: source.interval(),
        has_colors: has_colors(),
        ..State::default()
    };
    look(&mut state, &first);
    // Notes belong to the normal screen.
    messages::finish();
    let mut screen = Screen::enter().map_err(Failure::output)?;
    let mut keys = Keys::read()?;
    let mut next = Box::pin(source.next());
    // Ages and the clock go on between two looks.
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(|frame| draw(frame, &state, now(), &utc_now())).map_err(Failure::output)?;
        tokio::select! {
            biased;
            event = signals.next() => match event {
                // Ctrl-C is the usual end of a watch, so it is a success.
                Event::Signal(Signal::INT) => return Ok(Status::SUCCESS),
                Event::Signal(signal) if asks_to_end(signal) => return Ok(Status::of_signal(signal.as_raw())),
                Event::Signal(Signal::TSTP) => {
                    // Ctrl-Z: the shell has its screen back until the program continues.
                    drop(screen);
                    let _ = kill_process(getpid(), Signal::STOP);
                    screen = Screen::enter().map_err(Failure::output)?;
                }
                Event::Signal(Signal::CONT) => {
                    // Another process may have stopped this one, and the shell has used the
                    // terminal since.
                    drop(screen);
                    screen = Screen::enter().map_err(Failure::output)?;
                }
                // The terminal may have another size, so the screen is redrawn.
                Event::Signal(_) | Event::Child => {}
            },
            pressed = keys.next() => if !state.press(pressed) {
                return Ok(Status::SUCCESS);
            },
            seen = &mut next => {
                match seen {
                    Ok(listing) => look(&mut state, &listing),
                    // The store may be back in a moment.
                    Err(failure) => state.fail(escape_for_terminal(&failure.to_string())),
                }
                next = Box::pin(source.next());
            }
            _ = second.tick() => {}
        }
    }
}

fn look(state: &mut State, listing: &Listing) {
    let locks = listing.locks.iter().map(Lock::new).collect();
    state.look(locks, listing::corrupt_message(&listing.corrupt), now());
}
