//! The settings of a listening session.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::route::Route;
use crate::settings::Settings;
use crate::statements::render;

/// How a session opens its connection, and which statements it sends.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) route: Route,
    /// The limit for opening the connection.
    pub(super) connect: Duration,
    /// The limit for a statement.
    pub(super) statement: Duration,
    /// Asks for the process id of the session, the lock table and the server's room for locks.
    pub(super) listener: String,
    /// Watches keys, and unwatches other keys.
    pub(super) watch: String,
    /// Tells which of many keys have no live lock.
    pub(super) poll: String,
    session: String,
    /// The most keys that this process watches: a small share of the server's room for locks, because all
    /// processes and programs share that room.
    most: AtomicUsize,
}

impl Plan {
    /// A connection that is silent for so long is of no use for signals, even if statements may take longer.
    const LONGEST_STATEMENT: Duration = Duration::from_secs(5);

    /// One process may take a 64th of the server's room for locks.
    const SHARE: usize = 64;

    /// The most keys, even if the server has more room.
    const MOST: usize = 256;

    /// `None` if these settings have no signals.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let route = settings.signals.route.clone().filter(|_| settings.signals.are_on)?;
        let settings_of_a_session =
            [include_str!("../sql/session.sql"), include_str!("../sql/listen.sql")];
        Some(Self {
            route,
            connect: settings.connect,
            statement: settings.statement.min(Self::LONGEST_STATEMENT),
            listener: render(include_str!("../sql/listener.sql"), settings),
            watch: render(include_str!("../sql/watch.sql"), settings),
            poll: render(include_str!("../sql/poll.sql"), settings),
            session: settings_of_a_session.map(|sql| render(sql, settings)).concat(),
            most: AtomicUsize::new(Self::MOST),
        })
    }

    /// The most keys to watch on a server that has room for so many locks.
    pub(super) fn limit(&self, room: usize) -> usize {
        (room / Self::SHARE).clamp(1, self.most.load(Ordering::Relaxed).max(1))
    }

    /// Halves the limit, because the server had no room while so many keys were watched.
    pub(super) fn has_no_room(&self, watched: usize) {
        self.most.fetch_min((watched / 2).max(1), Ordering::Relaxed);
    }

    /// Begins to listen to the channel of `signal.sql` for this table, and sends a text there that is no number.
    pub(super) fn listen(&self, table: i64) -> String {
        let channel = format!("syncguard_{table}");
        format!("{} LISTEN {channel}; NOTIFY {channel}, 'hello'", self.session)
    }
}
