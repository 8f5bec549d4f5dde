//! If locks live by clocks that differ and may be set back, a caller that was told of an expiry may find the lock
//! live a moment later.

use std::time::Duration;

use super::{Script, TTL};
use crate::{Answer, Call, Invariant, Limits};

/// The lock is reported as over at this time, and is released then.
fn broken(at: u64, drift: u64) -> Vec<Invariant> {
    let mut script = Script::new();
    let extend = Call::Extend { lock: "a".to_owned(), ttl: TTL, expected: None };
    script.acquire(0, "a", 1).call(at, extend, at + 1, Answer::NotHeld);
    script.release(at + 2, "a", Answer::Released);
    script.broken_by(&Limits { drift: Duration::from_millis(drift), ..Limits::new() })
}

#[test]
fn what_is_over_by_one_clock_may_be_held_by_another() {
    let end = TTL + 1000;
    assert_eq!(broken(end + 100, 0), [Invariant::OverForGood]);
    assert_eq!(broken(end + 100, 400), []);
    assert_eq!(broken(end + 450, 400), [Invariant::OverForGood]);
}
