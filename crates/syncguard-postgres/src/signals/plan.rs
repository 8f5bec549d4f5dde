//! What a session needs to know.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::route::Route;
use crate::settings::Settings;
use crate::statements::render;

/// How a session opens its connection, and what it says there.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) route: Route,
    /// The longest that opening may take.
    pub(super) connect: Duration,
    /// The longest that a statement may take.
    pub(super) statement: Duration,
    /// Asks whose session it is.
    pub(super) listener: String,
    /// Watches keys, and lets go of others.
    pub(super) watch: String,
    session: String,
    /// How many keys this process watches at the most: a few of the locks that the server has room for, as all
    /// processes, and all that other programs lock, share that room.
    most: AtomicUsize,
}

impl Plan {
    /// However long statements may take, a connection that is silent for so long is of no use for
    /// signals.
    const LONGEST_STATEMENT: Duration = Duration::from_secs(5);

    /// The part of the server's room for locks that one process may take, however much that is.
    const SHARE: usize = 64;

    /// However much room there is.
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
            session: settings_of_a_session.map(|sql| render(sql, settings)).concat(),
            most: AtomicUsize::new(Self::MOST),
        })
    }

    /// How many keys may be watched on a server that has room for so many locks.
    pub(super) fn limit(&self, room: usize) -> usize {
        (room / Self::SHARE).clamp(1, self.most.load(Ordering::Relaxed).max(1))
    }

    /// The server had no room while so many keys were watched: from now on there are half as many.
    pub(super) fn has_no_room(&self, watched: usize) {
        self.most.fetch_min((watched / 2).max(1), Ordering::Relaxed);
    }

    /// Begins to listen to what `signal.sql` says of this table, and says something there that is no number.
    pub(super) fn listen(&self, table: i64) -> String {
        let channel = format!("syncguard_{table}");
        format!("{} LISTEN {channel}; NOTIFY {channel}, 'hello'", self.session)
    }
}
