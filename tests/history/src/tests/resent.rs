//! If a backend resends an acquire or an extend within one call, the earlier request may be carried out as well, as
//! the simulation has shown with seeds 201, 205 and 209 on the twin of PostgreSQL.

use std::time::Duration;

use super::{EPOCH, Script, TTL, failed};
use crate::{Answer, Call, Invariant, Limits};

fn sent_again() -> Limits {
    Limits { resent: Duration::from_secs(3), ..Limits::new() }
}

fn only_where_it_is_sent_again(script: &Script, invariant: Invariant) {
    assert_eq!(script.broken_by(&Limits::new()), [invariant]);
    assert_eq!(script.broken_by(&sent_again()), []);
}

#[test]
fn the_first_of_two_extends_may_have_made_the_lock_shorter() {
    let mut script = Script::new();
    script.acquire(0, "a", 1);
    let call = Call::Extend { lock: "a".to_owned(), ttl: 20, expected: None };
    script.call(10, call, 3000, Answer::NotHeld).acquire(1060, "b", 2);
    only_where_it_is_sent_again(&script, Invariant::LocksTakeTurns);
}

#[test]
fn the_first_of_two_acquires_may_have_been_a_lock_that_is_over() {
    let mut script = Script::new();
    let found = Answer::Found {
        lock: "a".to_owned(),
        fence: 1,
        acquired_at: EPOCH + 1,
        expires_at: EPOCH + 1 + TTL,
    };
    script.call(10, Call::LookupKey { key: "k".to_owned() }, 11, found);
    script.acquire(1200, "b", 2).release(1210, "b", Answer::Released);
    let call = Call::Acquire { key: "k".to_owned(), lock: "a".to_owned(), ttl: TTL };
    let answer = Answer::Acquired { fence: 3, expires_at: EPOCH + 2000 + TTL };
    script.call(0, call, 2001, answer);
    assert!(script.broken_by(&Limits::new()).contains(&Invariant::FencesGrow));
    assert_eq!(script.broken_by(&sent_again()), []);
}

#[test]
fn a_release_that_is_repeated_may_find_what_came_of_the_first() {
    let mut script = Script::new();
    script.acquire(0, "a", 1).release(10, "a", failed()).acquire(40, "b", 2);
    script.release(45, "b", Answer::Released).release(60, "a", Answer::Released);
    only_where_it_is_sent_again(&script, Invariant::OverForGood);
}

#[test]
fn a_process_that_dies_after_its_release_cannot_give_back_what_the_first_acquire_takes() {
    let mut script = Script::new();
    script.acquire(0, "a", 1).release(10, "a", Answer::Released);
    let (acquired_at, expires_at) = (EPOCH + 150, EPOCH + 150 + TTL);
    let found = Answer::Found { lock: "a".to_owned(), fence: 2, acquired_at, expires_at };
    script.call(200, Call::LookupKey { key: "k".to_owned() }, 201, found);
    assert!(script.broken_by(&Limits::new()).contains(&Invariant::BackInTime));
    assert_eq!(script.broken_by(&sent_again()), []);
}
