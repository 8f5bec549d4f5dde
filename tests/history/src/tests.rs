//! For each invariant, a handmade history that breaks it and a similar one that does not.

mod apart;
mod forgotten;
mod resent;
mod shrunk;
mod ticks;
mod uses;

use std::time::Duration;

use super::{
    Answer, Call, Checker, Counts, Entry, Fault, Floors, History, Invariant, Limits, Line, Moment,
    Violation, check,
};
use crate::history::checked;

/// A script for a history. Times are in milliseconds, by both clocks.
#[derive(Clone, Default)]
struct Script {
    lines: Vec<Line>,
    operations: u64,
}

/// The store's clock at 0 ms.
const EPOCH: u64 = 1_000_000;
const TTL: u64 = 100;

impl Script {
    /// A history with a correct end.
    fn new() -> Self {
        let mut script = Self::default();
        script.note(50_000, Entry::Quiet { live: 0, tasks: 0, borrowed: 0 });
        script
    }

    fn note(&mut self, at: u64, entry: Entry) {
        let at = Moment { steady: at * 1000, unix: EPOCH + at };
        self.lines.push(Line { at, process: "p".to_owned(), entry });
    }

    fn call(&mut self, called: u64, call: Call, answered: u64, answer: Answer) -> &mut Self {
        let number = self.operations;
        self.operations += 1;
        self.note(called, Entry::Called { number, call });
        self.note(answered, Entry::Answered { number, answer });
        self
    }

    /// An acquire that is granted a millisecond after it was called.
    fn acquire(&mut self, at: u64, lock: &str, fence: u64) -> &mut Self {
        let answer = Answer::Acquired { fence, expires_at: EPOCH + at + TTL };
        self.ask(at, lock, answer)
    }

    fn ask(&mut self, at: u64, lock: &str, answer: Answer) -> &mut Self {
        let (key, lock) = ("k".to_owned(), lock.to_owned());
        self.call(at, Call::Acquire { key, lock, ttl: TTL }, at + 1, answer)
    }

    /// An acquire of the lock `a` that nobody hears the answer to.
    fn asks_and_dies(&mut self, at: u64) -> &mut Self {
        let (key, lock) = ("k".to_owned(), "a".to_owned());
        self.note(at, Entry::Called { number: 99, call: Call::Acquire { key, lock, ttl: TTL } });
        self
    }

    /// A permit of the semaphore `s` that is granted a millisecond after it was called.
    fn permit(&mut self, at: u64, slot: u64, lock: &str) -> &mut Self {
        let key = format!("s:permit:{slot}");
        let answer = Answer::Acquired { fence: at + 1, expires_at: EPOCH + at + TTL };
        self.call(at, Call::Acquire { key, lock: lock.to_owned(), ttl: TTL }, at + 1, answer)
    }

    fn semaphore(&mut self, permits: u64) -> &mut Self {
        self.note(0, Entry::Semaphore { key: "s".to_owned(), permits });
        self
    }

    fn release(&mut self, at: u64, lock: &str, answer: Answer) -> &mut Self {
        self.call(at, Call::Release { lock: lock.to_owned() }, at + 1, answer)
    }

    fn extend(&mut self, at: u64, lock: &str, answer: Answer) -> &mut Self {
        let call = Call::Extend { lock: lock.to_owned(), ttl: TTL, expected: None };
        self.call(at, call, at + 1, answer)
    }

    /// Events of locks, such as `0 a gets 1, 5 b is refused, 9 a extends, 10 a frees`. A `?` is an answer that was lost,
    /// and a `!` the answer that the lock is not held.
    fn then(&mut self, events: &str) -> &mut Self {
        for event in events.split(", ") {
            let words: Vec<&str> = event.split(' ').collect();
            let (at, lock) = (words[0].parse().unwrap(), words[1]);
            match words[2..] {
                ["gets", fence] => self.acquire(at, lock, fence.parse().unwrap()),
                ["gets?"] => self.ask(at, lock, failed()),
                ["is", "refused"] => self.ask(at, lock, Answer::Locked),
                ["extends"] => self.extend(at, lock, extended(at)),
                ["extends?"] => self.extend(at, lock, failed()),
                ["frees"] => self.release(at, lock, Answer::Released),
                ["frees?"] => self.release(at, lock, failed()),
                ["frees!"] => self.release(at, lock, Answer::NotHeld),
                _ => panic!("{event}"),
            };
        }
        self
    }

    fn claim(&mut self, at: u64, fence: u64, answer: Answer) -> &mut Self {
        self.call(at, Call::Claim { register: "r".to_owned(), fence }, at + 1, answer)
    }

    fn write(&mut self, at: u64, fence: u64, value: u64, answer: Answer) -> &mut Self {
        self.call(at, Call::Write { register: "r".to_owned(), fence, value }, at + 1, answer)
    }

    fn found(&mut self, value: u64, writes: u64) -> &mut Self {
        self.note(40_000, Entry::Register { register: "r".to_owned(), value, writes });
        self
    }

    fn history(&self) -> History {
        History::new(self.lines.clone()).unwrap()
    }

    /// The invariants that the history breaks by these limits.
    fn broken_by(&self, limits: &Limits) -> Vec<Invariant> {
        let violations = check(&self.history(), limits);
        let mut broken: Vec<_> = violations.iter().map(|it| it.invariant).collect();
        broken.dedup();
        broken
    }

    /// The invariants that the history breaks, wherever it is cut.
    fn broken(&self) -> Vec<Invariant> {
        let of = |violations: &[Violation]| -> Vec<_> {
            violations.iter().map(|violation| violation.invariant).collect()
        };
        let whole = of(&check(&self.history(), &Limits::new()));
        let lines = self.history().lines();
        for cut in 0..lines.len() {
            let mut checker = Checker::new(Limits::new());
            // The order of the lines does not matter, if none comes too late.
            for line in lines[..cut].iter().rev() {
                checker.feed(line.clone());
            }
            checker.advance(lines[cut].at.steady);
            for line in &lines[cut..] {
                checker.feed(line.clone());
            }
            assert_eq!(of(&checker.finish().violations), whole, "cut before line {cut}");
        }
        self.broken_by(&Limits::new())
    }
}

/// The invariants that these events break, wherever the history is cut.
fn broken(events: &str) -> Vec<Invariant> {
    Script::new().then(events).broken()
}

fn failed() -> Answer {
    Answer::Failed { code: "NetworkTimeout".to_owned(), unknown: true }
}

fn extended(at: u64) -> Answer {
    Answer::Extended { expires_at: EPOCH + at + TTL }
}

#[test]
fn turns_that_follow_each_other_are_fine() {
    // `b` expires, and is taken over after the tolerance.
    let events = "0 a gets 1, 50 a extends, 60 a frees, 62 b gets 2, 70 c is refused, 1100 d is refused, \
                  1162 d gets 3, 1163 b frees!, 1164 d frees?, 1170 e gets 4, 1172 e frees, 1180 d frees!";
    assert_eq!(broken(events), []);
}

#[test]
fn one_holders_do_not_overlap() {
    // The lock is extended, then taken over before the end of the extension.
    let two = [Invariant::HoldersTakeTurns, Invariant::LocksTakeTurns];
    assert_eq!(broken("0 a gets 1, 90 a extends, 150 b gets 2"), two);
    // An unconfirmed extend does not prolong the holder's time.
    assert_eq!(broken("0 a gets 1, 90 a extends?, 1101 b gets 2"), []);
}

/// An extend for `ttl` that expects the last expiry of the store.
fn expecting(script: &mut Script, at: u64, ttl: u64, expected: u64, answer: Answer) {
    let call = Call::Extend { lock: "a".to_owned(), ttl, expected: Some(EPOCH + expected) };
    script.call(at, call, at + 1, answer);
}

#[test]
fn one_and_two_a_late_extend_does_not_shorten_what_was_confirmed_since() {
    let mut script = Script::new();
    script.acquire(0, "a", 1);
    expecting(&mut script, 10, 20, 100, failed());
    expecting(&mut script, 12, 3000, 100, Answer::Extended { expires_at: EPOCH + 3012 });
    // The first extend was carried out then, and the lock ended by it.
    script.acquire(1100, "b", 2);
    assert_eq!(script.broken(), [Invariant::HoldersTakeTurns, Invariant::LocksTakeTurns]);

    // Without the second extend, the store was right.
    let mut script = Script::new();
    script.acquire(0, "a", 1);
    expecting(&mut script, 10, 20, 100, failed());
    script.acquire(1031, "b", 2);
    assert_eq!(script.broken(), []);
}

#[test]
fn a_mismatch_changes_nothing_and_says_that_the_lock_is_held() {
    let mismatch = |at| Answer::Mismatch { expires_at: EPOCH + at };
    // The holder relies on its earlier expiry, and the store goes by its last answer.
    let mut script = Script::new();
    script.acquire(0, "a", 1);
    expecting(&mut script, 10, 5000, 90, mismatch(100));
    assert_eq!(script.clone().acquire(1100, "b", 2).broken(), []);
    for (at, is_relied_on) in [(98, true), (99, false)] {
        let broken = script.clone().acquire(at, "b", 2).broken();
        assert_eq!(broken.contains(&Invariant::HoldersTakeTurns), is_relied_on, "at {at}");
    }

    let mut script = Script::new();
    script.acquire(0, "a", 1);
    expecting(&mut script, 10, 10, 90, mismatch(3000));
    script.acquire(1100, "b", 2);
    assert_eq!(script.broken(), [Invariant::LocksTakeTurns]);

    // A lock that is over is not held again.
    let mut script = Script::new();
    script.acquire(0, "a", 1).release(20, "a", Answer::Released);
    expecting(&mut script, 30, 10, 90, mismatch(100));
    assert_eq!(script.broken(), [Invariant::OverForGood]);
}

#[test]
fn seven_a_server_that_fails_as_a_whole_serves_nobody() {
    let mut script = Script::new();
    script.note(100, Entry::Healed);
    script.then("200 a gets?, 300 a gets?");
    assert_eq!(script.broken(), [], "they may have been lost");
    script.then("400 a gets?");
    assert_eq!(script.broken(), [Invariant::BackInTime]);
    for fault in [Fault::Restarted, Fault::Refusing] {
        let mut script = script.clone();
        script.note(1900, Entry::Fault(fault));
        assert_eq!(script.broken(), []);
    }
    script.note(1900, Entry::Fault(Fault::ServerStopped));
    assert_eq!(script.broken(), []);
    // The answer counts from then on.
    script.note(8000, Entry::Healed);
    script.then("8100 b gets?, 8200 b gets?, 8300 b gets?");
    assert_eq!(script.broken(), [Invariant::BackInTime]);
}

#[test]
fn one_confirmed_too_late_is_relied_on_from_then_on() {
    let mut script = Script::new();
    script.acquire(0, "a", 1);
    let extend = Call::Extend { lock: "a".to_owned(), ttl: 4000, expected: None };
    script.call(50, extend, 1500, Answer::Extended { expires_at: EPOCH + 4050 });
    for (at, is_relied_on) in
        [(98, true), (99, false), (1498, true), (1499, true), (4048, true), (4049, false)]
    {
        let mut script = script.clone();
        script.acquire(at, "b", 2);
        let broken = script.broken();
        assert_eq!(broken.contains(&Invariant::HoldersTakeTurns), is_relied_on, "at {at}");
    }
}

#[test]
fn two_the_tolerance_is_part_of_a_locks_life() {
    assert_eq!(broken("0 a gets 1, 1099 b gets 2"), [Invariant::LocksTakeTurns]);
    assert_eq!(broken("0 a gets 1, 1100 b gets 2"), []);

    // A lock that only a lookup has seen counts as well. It has no holder, so the backend may have released it since.
    for (seen, is_broken) in [(600, true), (20, false)] {
        let found = Answer::Found {
            lock: "a".to_owned(),
            fence: 1,
            acquired_at: EPOCH,
            expires_at: EPOCH + TTL,
        };
        let mut script = Script::new();
        script.then("0 a gets?, 500 b gets 2");
        script.call(seen, Call::LookupKey { key: "k".to_owned() }, seen + 1, found);
        assert_eq!(script.broken() == [Invariant::LocksTakeTurns], is_broken, "{seen}");
        assert_eq!(script.broken().is_empty(), !is_broken, "{seen}");
    }
}

#[test]
fn three_fences_are_unique_and_grow() {
    let grow = [Invariant::FencesGrow];
    assert_eq!(broken("0 a gets 1, 10 a frees, 20 b gets 1, 30 b frees"), grow);
    assert_eq!(broken("0 a gets 2, 10 a frees, 20 b gets 1"), grow);
    // The same lock, asked for again.
    let mut script = Script::new();
    script.acquire(0, "a", 1);
    script.ask(10, "a", Answer::Acquired { fence: 2, expires_at: EPOCH + 100 });
    assert_eq!(script.broken(), grow);
    // Concurrent releases may have either order.
    assert_eq!(broken("0 a is refused, 0 b gets 2, 1 b frees, 2 c gets 3, 3 c frees"), []);
}

#[test]
fn four_a_lock_is_released_once() {
    let mut script = Script::new();
    script.acquire(0, "a", 1);
    script.call(10, Call::Release { lock: "a".to_owned() }, 30, Answer::Released);
    script.call(11, Call::Release { lock: "a".to_owned() }, 31, Answer::Released);
    assert_eq!(script.broken(), [Invariant::ReleasedOnce]);
    // After a release without an answer, the first or the second may have succeeded.
    assert_eq!(broken("0 a gets 1, 10 a frees?, 20 a frees"), []);
}

#[test]
fn five_what_is_over_stays_over() {
    let over = [Invariant::OverForGood];
    assert_eq!(broken("0 a gets 1, 10 a frees, 20 a extends"), over);
    assert_eq!(broken("0 a gets 1, 10 a frees!, 20 a extends"), over);
    // Another caller has the key: then the unanswered release has succeeded, or the lock has expired.
    assert_eq!(broken("0 a gets 1, 10 a frees?, 40 b gets 2, 50 a frees"), over);

    // An extend that crossed the release may have come first.
    let mut script = Script::new();
    let extend = Call::Extend { lock: "a".to_owned(), ttl: TTL, expected: None };
    script.then("0 a gets 1, 10 a frees").call(9, extend, 20, extended(9));
    assert_eq!(script.broken(), []);
}

#[test]
fn six_no_update_is_lost() {
    let good = || {
        let mut script = Script::new();
        script.claim(0, 1, Answer::Claimed { value: 0 }).claim(2, 2, Answer::Claimed { value: 0 });
        script.write(4, 2, 1, Answer::Written).write(6, 1, 1, Answer::Rejected);
        script
    };
    assert_eq!(good().found(1, 1).broken(), []);
    let lost = [Invariant::NoLostUpdate];
    assert_eq!(good().broken(), lost, "nobody looked");
    assert_eq!(good().found(1, 2).broken(), lost, "two writes, one of them lost");
    assert_eq!(good().found(2, 2).broken(), lost, "a write from nowhere");
    assert_eq!(good().write(8, 1, 1, Answer::Written).found(2, 2).broken(), lost, "a lower fence");
    assert_eq!(good().write(8, 3, 1, Answer::Written).found(2, 2).broken(), lost, "a value twice");
    assert_eq!(good().claim(8, 3, Answer::Claimed { value: 0 }).found(1, 1).broken(), lost);
    // A write without an answer may have been accepted or not.
    assert_eq!(good().write(8, 2, 2, failed()).found(1, 1).broken(), []);
    assert_eq!(good().write(8, 2, 2, failed()).found(2, 2).broken(), []);
}

#[test]
fn seven_orphans_go_in_time() {
    let late = [Invariant::BackInTime];
    // The caller was killed before the answer: 4 s for the call, the TTL, and 1.5 s.
    let orphan = |seen: u64| Script::new().asks_and_dies(0).ask(seen, "b", Answer::Locked).broken();
    assert_eq!(orphan(5599), []);
    assert_eq!(orphan(5601), late);

    // The caller was killed later, and may have sent the request at the last moment.
    let stopped = |seen: u64| {
        let mut script = Script::new();
        script.note(2000, Entry::Ended { process: "p".to_owned() });
        script.asks_and_dies(0).ask(seen, "b", Answer::Locked).broken()
    };
    assert_eq!(stopped(7599), []);
    assert_eq!(stopped(7601), late);

    assert_eq!(broken("0 a gets 1, 1600 b is refused"), []);
    assert_eq!(broken("0 a gets 1, 1602 b is refused"), late);

    let mut script = Script::new();
    script.then("0 a gets 1, 10 a frees");
    script.call(12, Call::IsLocked { key: "k".to_owned() }, 13, Answer::Is(true));
    assert_eq!(script.broken(), late, "released, and still there");
    assert_eq!(broken("10 a is refused"), late, "locked, by nobody");
}

/// A lock that is undone because no replica confirms it existed for a moment.
#[test]
fn seven_a_lock_may_live_until_its_failure_is_told() {
    let locked = |seen: u64| {
        let mut script = Script::new();
        let acquire = Call::Acquire { key: "k".to_owned(), lock: "a".to_owned(), ttl: TTL };
        let failed = Answer::Failed { code: "ServiceUnavailable".to_owned(), unknown: false };
        script.call(100, acquire, 700, failed);
        script.ask(seen, "b", Answer::Locked);
        script.broken()
    };
    assert_eq!(locked(98), [Invariant::BackInTime]);
    assert_eq!(locked(100), []);
    assert_eq!(locked(700), []);
    assert_eq!(locked(701), [Invariant::BackInTime]);
}

/// Where clocks differ, an acquire ends what its unanswered sending took before it says that the key is locked.
#[test]
fn seven_a_lock_may_live_until_its_acquire_gives_way() {
    let drift = Duration::from_millis(200);
    let locked = |seen: u64, drift: Duration| {
        let mut script = Script::new();
        let acquire = Call::Acquire { key: "k".to_owned(), lock: "a".to_owned(), ttl: TTL };
        script.acquire(60, "b", 1).call(10, acquire, 70, Answer::Locked);
        script.ask(seen, "c", Answer::Locked);
        script.broken_by(&Limits { drift, ..Limits::new() })
    };
    assert_eq!(locked(20, drift), []);
    assert_eq!(locked(20, Duration::ZERO), [Invariant::BackInTime]);
    assert_eq!(locked(5, drift), [Invariant::BackInTime]);
}

#[test]
fn seven_service_comes_back_in_time() {
    let healed = |served: u64| {
        let mut script = Script::new();
        script.note(100, Entry::Fault(Fault::Severed));
        script.note(200, Entry::Healed);
        script.then("210 a gets?, 220 a gets?, 230 a gets?").acquire(served, "b", 1);
        (script.broken(), checked(&script.history(), &Limits::new()).longest_outage_ms())
    };
    assert_eq!(healed(2198), (vec![], 1999));
    assert_eq!(healed(2200), (vec![Invariant::BackInTime], 2001));
}

#[test]
fn eight_nothing_is_left() {
    let left = [Invariant::NothingLeft];
    assert_eq!(Script::default().broken(), left, "nobody looked");
    for (live, tasks, borrowed) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        let mut script = Script::new();
        script.note(60_000, Entry::Quiet { live, tasks, borrowed });
        assert_eq!(script.broken(), left);
    }
}

#[test]
fn a_run_in_which_too_little_happened_does_not_count() {
    let floors = Floors {
        answered: 2,
        granted: 1,
        written: 0,
        rejected: 0,
        faults: vec![(Fault::Killed, 2)],
    };
    let mut script = Script::new();
    script.acquire(0, "a", 1).ask(1, "b", failed());
    script.note(5, Entry::Fault(Fault::Killed));
    let checker = checked(&script.history(), &Limits::new());
    let counts = checker.counts();
    assert_eq!((counts.answered, counts.unknown, counts.granted), (1, 1, 1));
    assert_eq!(floors.missing(counts), ["answered: 1 of 2", "Killed: 1 of 2"]);
    assert_eq!(floors.missing(&Counts::default()).len(), 3);
}

/// A planted flaw: one process counts one slot too many.
#[test]
fn nine_never_more_than_there_are_permits() {
    let mut script = Script::new();
    script.semaphore(2).permit(0, 0, "a").permit(1, 1, "b");
    script.release(50, "a", Answer::Released).permit(52, 0, "c");
    assert_eq!(script.broken(), []);
    // Each slot is held once, and there are three slots.
    let mut flawed = script.clone();
    flawed.permit(60, 2, "d");
    assert_eq!(flawed.broken(), [Invariant::PermitsAreCounted]);
    // By the largest number in use, the history is correct.
    flawed.semaphore(3);
    assert_eq!(flawed.broken(), []);
    // After the expiry of one permit, another may follow.
    script.permit(102, 2, "d");
    assert_eq!(script.broken(), []);
}

#[test]
fn ten_a_leader_is_told_in_time() {
    let mut script = Script::new();
    script.note(10, Entry::Told { left: 1 });
    assert_eq!(script.broken(), []);
    script.note(20, Entry::Told { left: 0 });
    assert_eq!(script.broken(), [Invariant::ToldInTime]);
}
