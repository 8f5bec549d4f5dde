//! Which tick a process tries next.

use std::time::Duration;

use syncguard_core::Timestamp;

use super::schedule::Schedule;

/// Which ticks are made up for that no process started in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missed {
    /// None: a tick that is more than a minute late is skipped.
    #[default]
    Skip,
    /// The last one, however late.
    Last,
    /// Each tick, oldest first.
    Each,
}

impl Missed {
    /// How late a tick may begin, unless the user says so.
    pub(super) fn default_lateness(self) -> Duration {
        match self {
            Self::Skip => Duration::from_secs(60),
            Self::Last | Self::Each => Duration::MAX,
        }
    }
}

/// The tick to try, or the time of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now(Timestamp),
    /// `None`: no tick is ever due again.
    Later(Option<Timestamp>),
}

/// The rules by which ticks are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) missed: Missed,
    pub(super) max_lateness: Duration,
}

impl Rules<'_> {
    /// The tick to try at `now`, if all ticks up to `settled` are over.
    pub(super) fn due(&self, settled: Timestamp, now: Timestamp) -> Due {
        let tick = match self.missed {
            Missed::Skip | Missed::Last => {
                self.schedule.last_until(now).filter(|tick| *tick > settled)
            }
            Missed::Each => {
                let from = settled.max(self.earliest(now));
                self.schedule.next_after(from).filter(|tick| *tick <= now)
            }
        };
        match tick {
            Some(tick) if self.is_in_time(tick, now) => Due::Now(tick),
            _ => Due::Later(self.schedule.next_after(settled.max(now))),
        }
    }

    /// Whether the time of the tick has come and the tick is not too late.
    pub(super) fn is_in_time(&self, tick: Timestamp, now: Timestamp) -> bool {
        now >= tick && now - tick <= self.max_lateness
    }

    /// The last time whose tick would be too late.
    fn earliest(&self, now: Timestamp) -> Timestamp {
        let late = u64::try_from(self.max_lateness.as_millis()).unwrap_or(u64::MAX);
        let earliest = now.as_millis().saturating_sub(late).saturating_sub(1);
        Timestamp::from_millis(earliest).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000).unwrap()
    }

    fn due(missed: Missed, max_lateness: Duration, settled: u64, now: u64) -> Due {
        let schedule = Schedule::every(MINUTE).unwrap();
        Rules { schedule: &schedule, missed, max_lateness }.due(at(settled), at(now))
    }

    #[test]
    fn the_last_tick_is_due_until_it_is_over_or_too_late() {
        let skip = |settled, now| due(Missed::Skip, Duration::from_secs(10), settled, now);
        assert_eq!(skip(540, 599), Due::Later(Some(at(600))));
        assert_eq!(skip(540, 600), Due::Now(at(600)));
        assert_eq!(skip(540, 610), Due::Now(at(600)));
        assert_eq!(skip(540, 611), Due::Later(Some(at(660))));
        assert_eq!(skip(600, 605), Due::Later(Some(at(660))));
        // A process whose clock was set back does not try a tick of the past again.
        assert_eq!(skip(660, 605), Due::Later(Some(at(720))));
    }

    #[test]
    fn after_a_downtime_one_or_each_missed_tick_is_due() {
        assert_eq!(due(Missed::Last, Duration::MAX, 60, 605), Due::Now(at(600)));
        assert_eq!(due(Missed::Last, Duration::MAX, 600, 605), Due::Later(Some(at(660))));
        assert_eq!(due(Missed::Each, Duration::MAX, 60, 605), Due::Now(at(120)));
        assert_eq!(due(Missed::Each, Duration::MAX, 540, 605), Due::Now(at(600)));
        assert_eq!(due(Missed::Each, Duration::MAX, 600, 605), Due::Later(Some(at(660))));
        assert_eq!(due(Missed::Each, 3 * MINUTE, 60, 605), Due::Now(at(480)));
        assert_eq!(due(Missed::Each, 3 * MINUTE, 60, 600), Due::Now(at(420)));
    }
}
