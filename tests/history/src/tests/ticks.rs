//! The starts of ticks.

use super::Script;
use crate::{Checker, Entry, Invariant, Limits, Line, Moment};

/// The first tick after the store's clock has begun to count, in seconds, and its time in the script.
const TICK: u64 = 1_001;
const DUE: u64 = 1000;

impl Script {
    fn tick(&mut self, at: u64, tick: u64, (attempt, attempts): (u64, u64)) -> &mut Self {
        self.note(at, Entry::Tick { key: "t".to_owned(), tick, attempt, attempts });
        self
    }
}

#[test]
fn eleven_no_tick_starts_twice() {
    let mut script = Script::new();
    script.tick(DUE, TICK, (1, 1)).tick(DUE + 1000, TICK + 1, (1, 1));
    // The ticks of another key are other ticks.
    script.note(DUE, Entry::Tick { key: "u".to_owned(), tick: TICK, attempt: 1, attempts: 1 });
    assert_eq!(script.broken(), []);
    script.tick(DUE + 500, TICK, (1, 1));
    assert_eq!(script.broken(), [Invariant::TicksStartOnce]);
}

#[test]
fn eleven_a_tick_starts_no_more_often_than_it_has_attempts() {
    let mut script = Script::new();
    script.tick(DUE, TICK, (1, 2)).tick(DUE + 100, TICK, (2, 2));
    assert_eq!(script.broken(), []);
    for wrong in [(1, 2), (2, 2), (3, 2), (0, 2)] {
        let broken = script.clone().tick(DUE + 200, TICK, wrong).broken();
        assert_eq!(broken, [Invariant::TicksStartOnce], "{wrong:?}");
    }
}

#[test]
fn eleven_no_tick_starts_before_its_time() {
    // Our clock may differ from the store's by 20 ms.
    for (at, is_early) in [(DUE - 21, true), (DUE - 20, false), (DUE, false), (DUE + 9000, false)] {
        let broken = Script::new().tick(at, TICK, (1, 1)).broken();
        assert_eq!(broken.contains(&Invariant::TicksStartOnce), is_early, "at {at}");
    }
}

/// A run of any length.
#[test]
fn old_ticks_are_forgotten() {
    let mut checker = Checker::new(Limits::new());
    for tick in 1..5000 {
        let at = Moment { steady: tick * 1_000_000, unix: tick * 1000 };
        let entry = Entry::Tick { key: "t".to_owned(), tick, attempt: 1, attempts: 1 };
        checker.feed(Line { at, process: "p".to_owned(), entry });
        checker.advance(at.steady + 1);
    }
    assert!(checker.retained().carried <= 100, "{:?}", checker.retained());
    assert!(checker.violations().is_empty());
    assert_eq!(checker.counts().ticks, 4999);
}
