//! How a line keeps from taking its key from other processes.

use std::ops::Range;
use std::time::Duration;

use crate::rt::Instant;

/// When a line lets other processes go first. Nobody tells it of them: it steps back now and then, and
/// learns from the races that it loses.
pub(super) struct Pace {
    /// Whether there are no other processes.
    is_alone: bool,
    /// Since when this process hands the key on to itself.
    since: Option<Instant>,
    /// When another process had the key.
    rival: Option<Instant>,
    /// When this process had the key last, or began to wait for it.
    had: Option<Instant>,
    /// How long its last turn took: longer than it should where the work is long.
    turn: Duration,
    /// Whether nobody hears of releases, so that others only look from time to time.
    is_deaf: bool,
    hold_back: Duration,
    /// Until when those have the key who found it in a gap, as long as they use it.
    guests_until: Option<Instant>,
}

impl Pace {
    /// For so long a process hands a key on to itself before it lets others go first.
    const TURN: Duration = Duration::from_millis(22);
    /// How long a process holds back after a signal at the most.
    const LONGEST: Duration = Duration::from_millis(2);
    /// The same after the first race that it has lost.
    const SHORTEST: Duration = Duration::from_micros(500);
    /// For how long others are reckoned with that were noticed.
    const MEMORY: Duration = Duration::from_secs(1);
    /// The same three where nobody hears of releases: others have to look while the key is free.
    const DEAF_TURN: Duration = Duration::from_millis(300);
    const DEAF_PAUSE: Range<Duration> = Duration::from_millis(60)..Duration::from_millis(140);
    const DEAF_MEMORY: Duration = Duration::from_secs(5);

    pub(super) fn new(is_alone: bool) -> Self {
        let (since, rival, had, is_deaf) = (None, None, None, false);
        let (turn, hold_back, guests_until) = (Self::TURN, Duration::ZERO, None);
        Self { is_alone, since, rival, had, turn, is_deaf, hold_back, guests_until }
    }

    /// Another process has the lock. After a race it was faster.
    pub(super) fn lost(&mut self, now: Instant, was_race: bool, is_deaf: bool) {
        if let Some(since) = self.since.take() {
            let turn = now.saturating_duration_since(since);
            self.turn = turn.clamp(Self::TURN, Self::MEMORY);
        }
        self.is_deaf = is_deaf;
        if !self.has_rivals(now) {
            self.had = Some(now);
        }
        self.rival = Some(now);
        if was_race {
            self.hold_back = (self.hold_back * 2).clamp(Self::SHORTEST, Self::LONGEST);
        }
    }

    /// A guard of this process has got the lock.
    pub(super) fn won(&mut self, now: Instant) {
        self.had = Some(now);
        if self.since.is_none() || self.has_had_its_turn(now) {
            self.since = Some(now);
        }
    }

    /// Whether others are to go first, and for how long. Where there are others, it is longer than
    /// they hold back.
    pub(super) fn step_back(&self, now: Instant) -> Option<Range<Duration>> {
        let pause = if self.is_deaf && self.has_rivals(now) {
            Self::DEAF_PAUSE
        } else if self.has_rivals(now) {
            Self::LONGEST..Self::LONGEST + Duration::from_millis(2)
        } else {
            Duration::ZERO..Self::SHORTEST
        };
        (self.has_had_its_turn(now) && !self.is_alone).then_some(pause)
    }

    fn has_had_its_turn(&self, now: Instant) -> bool {
        let turn = if self.is_deaf { Self::DEAF_TURN } else { Self::TURN };
        self.since.is_some_and(|since| since + turn <= now)
    }

    /// Somebody has found the key in a gap.
    pub(super) fn has_guests(&mut self, until: Instant) {
        self.guests_until = Some(until);
    }

    /// How long to hold back after a signal, which others have heard as well: the less, the longer this
    /// process has gone without the key. Guests, who hear nothing, go first whenever one of them is there.
    pub(super) fn hold_back(&mut self, now: Instant) -> Range<Duration> {
        if self.guests_until.is_some_and(|until| now < until) {
            return Self::LONGEST..Self::LONGEST + Duration::from_millis(1);
        }
        if !self.has_rivals(now) {
            self.hold_back = Duration::ZERO;
        }
        let gone_without = self.had.map(|had| now.saturating_duration_since(had));
        let turns = gone_without.unwrap_or_default().as_millis() / self.turn.as_millis().max(1);
        // As many turns as others may have had without it being left out.
        let shorter = u32::try_from(turns).unwrap_or(u32::MAX).saturating_sub(2).clamp(1, 8);
        Duration::ZERO..self.hold_back / shorter
    }

    fn has_rivals(&self, now: Instant) -> bool {
        let memory = if self.is_deaf { Self::DEAF_MEMORY } else { Self::MEMORY };
        self.rival.is_some_and(|rival| now < rival + memory)
    }
}
