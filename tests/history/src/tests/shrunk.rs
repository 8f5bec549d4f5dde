//! A history with a violation, and its reduced form.

use super::{EPOCH, Script, extended, failed};
use crate::{Answer, Call, Limits, check, shrink};

/// Many turns of two keys, and in the middle of them a violation.
fn around(flaw: impl Fn(&mut Script, u64)) -> Script {
    let mut script = Script::new();
    for turn in 0..60_u64 {
        let at = turn * 200;
        let lock = format!("lock-{turn}");
        let call =
            Call::Acquire { key: "other".to_owned(), lock: format!("other-{turn}"), ttl: 10 };
        let expires_at = EPOCH + at + 10;
        script.call(at, call, at + 1, Answer::Acquired { fence: turn + 1, expires_at });
        script.call(
            at + 2,
            Call::Release { lock: format!("other-{turn}") },
            at + 3,
            Answer::Released,
        );
        script.acquire(at, &lock, turn + 1).extend(at + 10, &lock, extended(at + 10));
        if turn == 30 {
            flaw(&mut script, at + 20);
        }
        script.release(at + 60, &lock, Answer::Released);
    }
    script
}

#[test]
fn a_violation_is_left_with_the_few_operations_that_show_it() {
    let two_holders: fn(&mut Script, u64) = |script, at| {
        script.acquire(at, "thief", 1000).release(at + 5, "thief", failed());
    };
    let held_again: fn(&mut Script, u64) = |script, at| {
        script.release(at, "lock-30", Answer::Released).extend(at + 3, "lock-30", extended(at));
    };
    let locked_by_nobody: fn(&mut Script, u64) = |script, at| {
        script.release(at, "lock-30", Answer::Released).ask(at + 3, "late", Answer::Locked);
    };
    for (flaw, fewest) in [(two_holders, 2), (held_again, 4), (locked_by_nobody, 6)] {
        let history = around(flaw).history();
        let violation = check(&history, &Limits::new()).remove(0);
        let shrunk = shrink(&history, &violation, &Limits::new());
        let again = check(&shrunk, &Limits::new());
        assert!(again.iter().any(|it| it.invariant == violation.invariant));
        assert_eq!(history.operations.len(), 302);
        assert!(shrunk.operations.len() <= fewest, "{:?}", shrunk.operations);
    }
}
