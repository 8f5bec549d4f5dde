//! Facts that are forgotten, and facts that must not be.

use super::{EPOCH, Script, TTL, extended, failed};
use crate::{Answer, Call, Checker, Entry, Fault, Invariant, Limits, Retained};

/// An hour later everything that is over is forgotten.
const LATER: u64 = 3_600_000;

impl Script {
    /// A run that ends after that hour.
    fn long() -> Self {
        let mut script = Self::default();
        script.note(2 * LATER, Entry::Quiet { live: 0, tasks: 0, borrowed: 0 });
        script
    }

    fn look(&mut self, at: u64, lock: &str, fence: u64, acquired_at: u64) -> &mut Self {
        let found = Answer::Found {
            lock: lock.to_owned(),
            fence,
            acquired_at: EPOCH + acquired_at,
            expires_at: EPOCH + at + TTL,
        };
        self.call(at, Call::LookupKey { key: "k".to_owned() }, at + 1, found)
    }
}

/// Turns of many locks on one key and its register; some answers are lost.
#[test]
fn what_is_over_is_forgotten() {
    let mut script = Script::long();
    for turn in 0..20_000 {
        let (at, lock, is_lost) = (turn * 150, format!("lock-{turn}"), turn % 100 == 0);
        let answer = if is_lost { failed() } else { Answer::Released };
        script.acquire(at, &lock, turn + 1).ask(at + 10, &format!("other-{turn}"), Answer::Locked);
        script.extend(at + 20, &lock, extended(at + 20));
        script.write(at + 30, turn + 1, turn + 1, Answer::Written).release(at + 40, &lock, answer);
    }
    let (mut checker, mut most) = (Checker::new(Limits::new()), 0);
    for line in script.history().lines() {
        let at = line.at.steady;
        checker.feed(line);
        checker.advance(at);
        most = most.max(checker.retained().all());
    }
    assert!(most < 300, "{most} are kept");
    // The last fences and values with their owners, and the line that is still to come.
    let Retained { ahead, open, locks, carried } = checker.retained();
    assert_eq!((ahead, open, locks), (1, 0, 0));
    assert!(carried < 20, "{carried}");
}

#[test]
fn one_and_two_a_holder_of_an_hour_is_not_forgotten() {
    // The lock is kept alive all the time, and in the middle another caller has the key for a moment.
    let mut script = Script::long();
    script.acquire(0, "a", 1);
    for at in (50..LATER).step_by(50) {
        script.extend(at, "a", extended(at));
        if at == LATER / 2 {
            script.acquire(at + 5, "b", 2).release(at + 8, "b", Answer::Released);
        }
    }
    let broken = script.broken_by(&Limits::new());
    // Its extends go on, although it was taken over.
    for invariant in
        [Invariant::HoldersTakeTurns, Invariant::LocksTakeTurns, Invariant::OverForGood]
    {
        assert!(broken.contains(&invariant), "{invariant:?} of {broken:?}");
    }
}

#[test]
fn three_a_fence_does_not_go_back_after_an_hour() {
    for (fence, is_broken) in [(6, true), (7, true), (8, false)] {
        let mut script = Script::long();
        script.acquire(0, "a", 7).release(10, "a", Answer::Released);
        script.acquire(LATER, "b", fence);
        let expected: &[_] = if is_broken { &[Invariant::FencesGrow] } else { &[] };
        assert_eq!(script.broken(), expected, "the fence {fence} after 7");
    }
    // An operation with a slow answer is compared with the state before its call.
    let mut script = Script::long();
    script.then("0 a gets 7, 10 a frees");
    let call = Call::Acquire { key: "k".to_owned(), lock: "b".to_owned(), ttl: TTL };
    let answer = Answer::Acquired { fence: 6, expires_at: EPOCH + 20_100 };
    script.call(5, call.clone(), 20_000, answer.clone());
    script.then("8000 c gets 8, 8010 c frees");
    assert_eq!(script.broken(), [Invariant::FencesGrow], "7 was granted before");
    let mut script = Script::long();
    script.acquire(6, "a", 7).release(10, "a", Answer::Released);
    script.call(5, call, 20_000, answer);
    assert_eq!(script.broken(), [], "it may have been before 7");
}

#[test]
fn four_and_five_a_lock_of_an_hour_ago_is_not_released() {
    for late in [Answer::Released, extended(LATER), Answer::Mismatch { expires_at: EPOCH }] {
        let mut script = Script::long();
        script.acquire(0, "a", 1).release(10, "a", Answer::Released);
        let call = match late {
            Answer::Released => Call::Release { lock: "a".to_owned() },
            _ => Call::Extend { lock: "a".to_owned(), ttl: TTL, expected: None },
        };
        script.call(LATER, call, LATER + 1, late);
        assert_eq!(script.broken(), [Invariant::OverForGood]);
    }
    let mut script = Script::long();
    script.acquire(0, "a", 1).release(10, "a", failed()).release(LATER, "a", Answer::NotHeld);
    assert_eq!(script.broken(), []);
}

#[test]
fn six_a_register_does_not_go_back_after_an_hour() {
    for (fence, value, is_broken) in [(2, 1, true), (2, 2, true), (1, 3, true), (2, 3, false)] {
        let mut script = Script::long();
        script.write(0, 1, 1, Answer::Written).write(2, 2, 2, Answer::Written);
        script.write(LATER, fence, value, Answer::Written);
        let register = "r".to_owned();
        script.note(LATER + 10, Entry::Register { register, value: 3, writes: 3 });
        let expected: &[_] = if is_broken { &[Invariant::NoLostUpdate] } else { &[] };
        assert_eq!(script.broken(), expected, "{fence} {value}");
    }
}

#[test]
fn seven_a_lock_of_an_hour_ago_is_no_reason() {
    let mut script = Script::long();
    script.acquire(0, "a", 1).ask(LATER, "b", Answer::Locked);
    assert_eq!(script.broken(), [Invariant::BackInTime]);
    let mut script = Script::long();
    script.acquire(0, "a", 1).look(LATER, "a", 1, 0);
    assert_eq!(script.broken(), [Invariant::BackInTime]);
    // After an hour without calls, a call is not served.
    let mut script = Script::long();
    script.note(LATER - 1500, Entry::Fault(Fault::Severed));
    script.note(LATER - 1000, Entry::Healed);
    script.ask(LATER, "b", failed()).ask(LATER + 1, "b", failed()).ask(LATER + 2, "b", failed());
    assert_eq!(script.broken(), [Invariant::BackInTime]);
    // An operation in progress may turn out to be the reason, also if its caller is gone.
    let mut script = Script::long();
    script.asks_and_dies(0).ask(7500, "b", Answer::Locked);
    assert_eq!(script.broken(), [Invariant::BackInTime]);
    script.note(8000, Entry::Ended { process: "p".to_owned() });
    assert_eq!(script.broken(), []);
}

#[test]
fn nine_permits_of_an_hour_are_counted() {
    let mut script = Script::long();
    script.semaphore(1).permit(0, 0, "a");
    for at in (50..LATER).step_by(50) {
        script.extend(at, "a", extended(at));
    }
    script.permit(LATER - 20, 1, "b");
    assert_eq!(script.broken_by(&Limits::new()), [Invariant::PermitsAreCounted]);
}
