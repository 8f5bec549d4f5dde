//! How the processes that want the same key share it.
//!
//! A process hands a key on from one waiter to the next faster than a rival can ask for it. So a process keeps a key to
//! itself for one turn, and then leaves it free until a rival takes it, for [`PAUSE`] at the most. A turn lasts [`TURN`]
//! once a rival was seen. Each pause in which no rival comes doubles the turn, up to [`LONGEST_TURN`], and after five of
//! the longest turns the pause is a [`LONG_PAUSE`].
//!
//! While a client that only polls was seen within [`MEMORY`], all processes leave the key free for the whole [`PAUSE`]
//! after each turn, whichever of them had it.

use std::time::Duration;

use crate::rt::Instant;

/// How long a process keeps a key to itself after it has seen a rival. With 16 ms, four processes with four waiters
/// each wait for 6 ideal rounds at most; with 50 ms for 15. A shorter turn changes the process more often.
pub(super) const TURN: Duration = Duration::from_millis(16);

/// How long a process keeps a key to itself while no rival takes it. A rival with signals waits this long at the most.
const LONGEST_TURN: Duration = Duration::from_millis(900);

/// How long a process leaves a key free at the most. A rival that is 10 ms further from the store needs 20 ms to hear
/// of the release and to ask; with less than 22 ms it gets the key only once in several turns.
const PAUSE: Duration = Duration::from_millis(25);

/// A client that asks every 100 ms cannot miss a pause of this length. After every five of the longest turns, all
/// pauses together take 4.5 % of the time.
const LONG_PAUSE: Duration = Duration::from_millis(110);

/// For how long a process remembers rivals. With 5 s, a key would be half used for longer after a client that polls.
const MEMORY: Duration = Duration::from_secs(2);

/// The knowledge of one process about its rivals for one key.
pub(super) struct Fairness {
    /// Whether no other process can reach the store.
    is_single_process: bool,
    /// How long this process may keep the key to itself.
    turn: Duration,
    /// Since when this process has kept the key to itself; with clients that poll, since when none of them has had it.
    kept_since: Option<Instant>,
    /// When this process left the key free for a long pause last, or began to use the key.
    long_pause_at: Option<Instant>,
    /// When a guard of this process released the key last.
    released_at: Option<Instant>,
    /// When a rival was seen last.
    rival_at: Option<Instant>,
    /// When a client that polls was seen with the key last.
    poller_at: Option<Instant>,
    /// Whether a rival was seen with the key since this process had it.
    has_lost: bool,
}

/// A pause in which a process leaves a key free for rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) time: Duration,
    /// Whether the pause ends as soon as a rival has the key.
    pub(crate) ends_early: bool,
}

impl Fairness {
    pub(super) fn new(is_single_process: bool) -> Self {
        Self {
            is_single_process,
            turn: LONGEST_TURN,
            kept_since: None,
            long_pause_at: None,
            released_at: None,
            rival_at: None,
            poller_at: None,
            has_lost: false,
        }
    }

    /// A waiter enters an empty queue, and no guard of this process has the key.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        let was_free = |time| self.released_at.is_none_or(|released| released + time <= now);
        if was_free(LONG_PAUSE) {
            self.long_pause_at = None;
        }
        if was_free(PAUSE) {
            self.kept_since = None;
            self.has_lost = false;
        }
    }

    /// A guard of this process has got the lock.
    pub(super) fn on_granted(&mut self, now: Instant) {
        self.kept_since.get_or_insert(now);
        self.long_pause_at.get_or_insert(now);
        self.has_lost = false;
    }

    /// A guard of this process has released the lock.
    pub(super) fn on_released(&mut self, now: Instant) {
        self.released_at = Some(now);
    }

    /// A rival has the lock.
    pub(super) fn on_rival_seen(&mut self, now: Instant, polls: bool) {
        (self.turn, self.rival_at, self.has_lost) = (TURN, Some(now), true);
        if polls {
            self.poller_at = Some(now);
        }
        self.kept_since =
            self.kept_since.or(Some(now)).filter(|_| !polls && self.knows_pollers(now));
    }

    /// The pause that this process makes before it asks for a key that was just released.
    pub(super) fn pause(&self, now: Instant) -> Option<Pause> {
        let is_over = |since: &Instant, turns: u32, turn: Duration| *since + turn * turns <= now;
        let since = self.kept_since.filter(|_| !self.is_single_process)?;
        if self.knows_pollers(now) {
            return is_over(&since, 1, TURN).then_some(Pause { time: PAUSE, ends_early: false });
        }
        let is_long = self.long_pause_at.is_some_and(|at| is_over(&at, 5, LONGEST_TURN));
        let time = if is_long { LONG_PAUSE } else { PAUSE };
        is_over(&since, 1, self.turn).then_some(Pause { time, ends_early: true })
    }

    /// No rival was seen to take the key during a pause.
    pub(super) fn on_no_rival(&mut self, pause: Pause) {
        self.kept_since = None;
        if pause.ends_early {
            self.turn = LONGEST_TURN.min(self.turn * 2);
        }
        if pause.time == LONG_PAUSE {
            self.long_pause_at = None;
        }
    }

    /// Whether a rival was seen with the key since this process had it.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// When an unused queue may forget this state; `None` for at once.
    pub(super) fn forget_at(&self) -> Option<Instant> {
        if self.is_single_process {
            return None;
        }
        let rival = self.rival_at.map(|at| at + MEMORY);
        let own = self.released_at.filter(|_| self.kept_since.is_some()).map(|at| at + PAUSE);
        rival.max(own)
    }

    fn knows_pollers(&self, now: Instant) -> bool {
        self.poller_at.is_some_and(|at| now < at + MEMORY)
    }
}
