//! How a line keeps from taking its key from other processes.

use std::ops::Range;
use std::time::Duration;

use crate::rt::Instant;

/// When a line lets other processes go first. Nobody tells it of them: it steps back now and then, and
/// learns from the races that it loses.
pub(super) struct Pace {
    /// Whether there are no other processes.
    is_alone: bool,
    /// The turn in which this process hands the key on to itself.
    own: Option<OwnTurn>,
    /// When another process had the key.
    rival: Option<Instant>,
    /// When this process had the key last, or began to wait for it.
    had: Option<Instant>,
    /// How long its last turn took: longer than it should where the work is long.
    turn: Duration,
    /// Whether nobody hears of releases, so that others only look from time to time.
    is_deaf: bool,
    /// Whether others have taken the key when this process wanted it, so that they may do so again.
    is_contested: bool,
    /// Until when those have the key who found it in a gap, as long as they use it.
    guests_until: Option<Instant>,
}

struct OwnTurn {
    since: Instant,
    /// Whether others were let go first, so that it ends with the next grant.
    has_stepped_back: bool,
}

/// What to do after a signal, before the store is asked for the lock.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::locking) struct HoldBack {
    /// How long to wait: a random time in this range.
    pub(in crate::locking) range: Range<Duration>,
    /// How often to look whether the lock is free after that.
    pub(in crate::locking) looks: u32,
}

impl Pace {
    /// For so long a process hands a key on to itself before it lets others go first.
    const TURN: Duration = Duration::from_millis(16);
    /// The same while it knows of no others.
    const TURN_ALONE: Duration = Duration::from_millis(50);
    /// How long a process holds back after a signal at the most.
    const LONGEST: Duration = Duration::from_millis(2);
    /// What timers count in.
    const TICK: Duration = Duration::from_millis(1);
    /// How long it lets others go first that it knows nothing of, at the most.
    const SHORTEST: Duration = Duration::from_micros(500);
    /// Whoever has gone without the key for so many turns is probably the next one: when a turn is over, it does
    /// not look before it asks.
    const NEXT: f64 = 2.5;
    /// Whoever has gone without the key for so many turns has been left out, and waits for no turn to end.
    const OVERDUE: f64 = 4.0;
    /// For how long others are reckoned with that were noticed: one who polls needs many polls for a turn.
    const MEMORY: Duration = Duration::from_secs(2);
    /// The same three where nobody hears of releases: others have to look while the key is free.
    const DEAF_TURN: Duration = Duration::from_millis(300);
    const DEAF_PAUSE: Range<Duration> = Duration::from_millis(60)..Duration::from_millis(140);
    const DEAF_MEMORY: Duration = Duration::from_secs(5);

    pub(super) fn new(is_alone: bool) -> Self {
        Self {
            is_alone,
            own: None,
            rival: None,
            had: None,
            turn: Self::TURN,
            is_deaf: false,
            is_contested: false,
            guests_until: None,
        }
    }

    /// Another process has the lock. After a race it was faster.
    pub(super) fn lost(&mut self, now: Instant, was_race: bool, is_deaf: bool) {
        if let Some(own) = self.own.take() {
            let stepped_back = Self::LONGEST + Self::TICK;
            let turn = now.saturating_duration_since(own.since).saturating_sub(stepped_back);
            self.turn = turn.clamp(Self::TURN, Self::MEMORY);
            self.had = Some(now);
        }
        self.is_deaf = is_deaf;
        if !self.has_rivals(now) {
            self.had = Some(now);
            self.is_contested = false;
        }
        self.rival = Some(now);
        self.is_contested |= was_race;
    }

    /// A guard of this process has got the lock.
    pub(super) fn won(&mut self, now: Instant) {
        self.had = Some(now);
        if self.own.as_ref().is_none_or(|own| own.has_stepped_back) {
            self.own = Some(OwnTurn { since: now, has_stepped_back: false });
        }
    }

    /// Whether others are to go first, and for how long. Where there are others, it is longer than
    /// they hold back.
    pub(super) fn step_back(&mut self, now: Instant) -> Option<Range<Duration>> {
        let unknown = Duration::ZERO..Self::SHORTEST;
        let (length, pause) = match self.has_rivals(now) {
            true if self.is_deaf => (Self::DEAF_TURN, Self::DEAF_PAUSE),
            true => (Self::TURN, Self::LONGEST + Self::TICK..Self::LONGEST + Self::TICK * 3),
            false if self.is_deaf => (Self::DEAF_TURN, unknown),
            false => (Self::TURN_ALONE, unknown),
        };
        let is_alone = self.is_alone;
        let own = self.own.as_mut().filter(|own| !is_alone && own.since + length <= now)?;
        own.has_stepped_back = true;
        Some(pause)
    }

    /// Somebody has found the key in a gap.
    pub(super) fn has_guests(&mut self, until: Instant) {
        self.guests_until = Some(until);
    }

    /// What to do after a signal, which others have heard as well: the longer ago this process has had the key,
    /// the less it holds back, so that processes follow each other. Guests, who hear nothing, go first whenever
    /// one of them is there.
    pub(super) fn hold_back(&self, now: Instant) -> HoldBack {
        if self.guests_until.is_some_and(|until| now < until) {
            return HoldBack { range: Self::LONGEST..Self::LONGEST + Self::TICK, looks: 1 };
        }
        if !self.has_rivals(now) {
            return HoldBack::default();
        }
        if !self.is_contested {
            return HoldBack { range: Duration::ZERO..Self::SHORTEST, looks: 1 };
        }
        let gone_without =
            self.had.map_or(Duration::ZERO, |had| now.saturating_duration_since(had));
        let turns = gone_without.div_duration_f64(self.turn).max(1.0);
        // Whoever has had it for a whole turn steps back.
        let is_turn_over = self.rival.is_none_or(|rival| rival + Self::TURN <= now);
        let longest = Self::LONGEST.mul_f64((2.0 - 2.0 * turns).exp2());
        let held_back = longest * 3 / 4..longest;
        let at_once = Range::default();
        // Between two turns of one line, the key is free for less than two looks.
        let (range, looks) = match is_turn_over {
            true if turns >= Self::OVERDUE => (at_once, 0),
            true if turns >= Self::NEXT => (held_back, 0),
            true => (held_back, 1),
            // They may never step back, and then a look finds the key free by chance alone. So does this.
            false if turns >= Self::OVERDUE => (Duration::ZERO..Self::LONGEST, 0),
            false if turns >= Self::NEXT => (at_once, 2),
            false => (held_back, 2),
        };
        HoldBack { range, looks }
    }

    fn has_rivals(&self, now: Instant) -> bool {
        let memory = if self.is_deaf { Self::DEAF_MEMORY } else { Self::MEMORY };
        self.rival.is_some_and(|rival| now < rival + memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that has had its turn, and then lost the key to others who hand it on in races.
    fn outrun(now: Instant) -> Pace {
        let mut pace = Pace::new(false);
        pace.won(now);
        pace.lost(now, true, false);
        pace
    }

    /// After so many turns of others, which it saw the last time after `seen` of them.
    fn hold_back_after(turns: u32, seen: u32) -> HoldBack {
        let start = Instant::now();
        let mut pace = outrun(start);
        pace.lost(start + Pace::TURN * seen, true, false);
        pace.hold_back(start + Pace::TURN * turns)
    }

    #[test]
    fn whoever_has_gone_without_the_key_for_longer_goes_first() {
        // It has just looked: a turn is going on.
        let after = |turns| hold_back_after(turns, turns);
        let [one, two, three, four] = [after(1), after(2), after(3), after(4)];
        assert_eq!(one.range.end, Pace::LONGEST);
        assert!(two.range.end < one.range.start, "{two:?} before {one:?}");
        assert!(three.range.is_empty(), "{three:?}");
        // Others that do not step back are not waited for.
        assert_eq!([one.looks, two.looks, three.looks, four.looks], [2, 2, 2, 0]);
    }

    #[test]
    fn after_a_whole_turn_the_next_one_asks_without_a_look() {
        let after = |turns| hold_back_after(turns, turns - 1);
        assert_eq!([1, 2, 3, 4].map(|turns| after(turns).looks), [1, 1, 0, 0]);
        assert!(after(4).range.is_empty());
        // Two that have waited for longer than the next one do not meet it.
        assert!(!after(3).range.is_empty());
    }

    #[test]
    fn nobody_holds_back_for_others_that_it_knows_nothing_of() {
        let start = Instant::now();
        let pace = Pace::new(false);
        assert_eq!(pace.hold_back(start), HoldBack::default());
        let pace = outrun(start);
        assert_ne!(pace.hold_back(start), HoldBack::default());
        assert_eq!(pace.hold_back(start + Pace::MEMORY), HoldBack::default());
        // Refused once, and not in a race: nobody is known to want the key as well.
        let mut pace = Pace::new(false);
        pace.lost(start, false, false);
        let hold_back = pace.hold_back(start);
        assert!(hold_back.range.end <= Pace::SHORTEST && hold_back.looks == 1, "{hold_back:?}");
    }

    #[test]
    fn a_turn_ends_also_if_its_time_is_over_while_the_store_is_asked() {
        let start = Instant::now();
        let mut pace = outrun(start);
        pace.won(start);
        let before = start + Pace::TURN * 9 / 10;
        assert!(pace.step_back(before).is_none());
        pace.won(start + Pace::TURN);
        let after = start + Pace::TURN + Duration::from_millis(1);
        assert!(pace.step_back(after).is_some());
        // Nobody else has come: it is its turn again.
        pace.won(after);
        assert!(pace.step_back(after + Pace::TURN / 2).is_none());
        assert!(pace.step_back(after + Pace::TURN).is_some());
    }

    #[test]
    fn others_that_are_known_are_given_longer_than_they_hold_back() {
        let start = Instant::now();
        let mut pace = Pace::new(false);
        pace.won(start);
        assert!(pace.step_back(start + Pace::TURN).is_none());
        let unknown = pace.step_back(start + Pace::TURN_ALONE);
        assert_eq!(unknown.map(|range| range.end), Some(Pace::SHORTEST));
        let mut pace = outrun(start);
        pace.won(start);
        let known = pace.step_back(start + Pace::TURN);
        assert!(known.is_some_and(|range| range.start > Pace::LONGEST));
        let mut alone = Pace::new(true);
        alone.won(start);
        assert!(alone.step_back(start + Pace::TURN_ALONE).is_none());
    }
}
