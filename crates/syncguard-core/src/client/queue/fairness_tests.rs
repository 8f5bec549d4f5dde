//! The rule for sharing a key, step by step. `tests/simulation/tests/fairness` has its effects.

use std::time::Duration;

use super::fairness::{Fairness, Pause, TURN};
use crate::rt::Instant;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const SHARED: Option<Pause> = Some(Pause { time: ms(25), ends_early: true });
const WHOLE: Option<Pause> = Some(Pause { time: ms(25), ends_early: false });

/// The lengths of the next turns in ms if no rival comes, with the pause after each.
fn turns(fairness: &mut Fairness, mut now: Instant, number: usize) -> Vec<(u64, u64)> {
    let mut turns = Vec::new();
    while turns.len() < number {
        fairness.on_granted(now);
        let ends = (0..=900).find_map(|turn| Some((turn, fairness.pause(now + ms(turn))?)));
        let (turn, pause) = ends.expect("a turn ends");
        let length = u64::try_from(pause.time.as_millis()).expect("a short pause");
        now = now + ms(turn) + pause.time;
        fairness.on_no_rival(pause);
        turns.push((turn, length));
    }
    turns
}

#[test]
fn a_turn_is_short_once_a_rival_was_seen_and_grows_while_none_comes() {
    let start = Instant::now();
    let mut fairness = Fairness::new(false);
    let alone = [(900, 25), (900, 25), (900, 25), (900, 25), (900, 110), (900, 25)];
    assert_eq!(turns(&mut fairness, start, 6), alone);

    fairness.on_rival_seen(start, false);
    let lengths: Vec<_> = turns(&mut fairness, start, 8).iter().map(|(turn, _)| *turn).collect();
    assert_eq!(lengths, [16, 32, 64, 128, 256, 512, 900, 900]);
}

#[test]
fn a_turn_goes_on_through_hand_overs_and_ends_with_a_break() {
    let start = Instant::now();
    let mut fairness = Fairness::new(false);
    fairness.on_rival_seen(start, false);
    assert!(fairness.has_lost());
    fairness.on_granted(start);
    assert!(!fairness.has_lost());
    fairness.on_released(start + ms(10));
    fairness.on_arrival(start + ms(12));
    fairness.on_granted(start + ms(13));
    fairness.on_released(start + ms(17));
    fairness.on_arrival(start + ms(17));
    assert_eq!(fairness.pause(start + ms(17)), SHARED);
    fairness.on_arrival(start + ms(17 + 25));
    assert_eq!(fairness.pause(start + ms(17 + 25)), None, "the key was free for long enough");
}

#[test]
fn the_key_is_left_free_after_each_turn_while_a_client_polls() {
    let start = Instant::now();
    let mut fairness = Fairness::new(false);
    fairness.on_rival_seen(start, true);
    assert_eq!(fairness.pause(start + ms(100)), None, "the client that polls has had the key");
    fairness.on_granted(start);
    assert_eq!(fairness.pause(start + ms(15)), None);
    assert_eq!(fairness.pause(start + TURN), WHOLE);
    // The turn of a rival with signals is no reason to make no pause.
    fairness.on_rival_seen(start + ms(10), false);
    assert_eq!(fairness.pause(start + TURN), WHOLE);
    // Two seconds after the last sign of the client that polls, the turn of a rival with signals counts again.
    fairness.on_rival_seen(start + ms(2_000), false);
    assert_eq!(fairness.pause(start + ms(2_016)), None);
    fairness.on_granted(start + ms(2_020));
    assert_eq!(fairness.pause(start + ms(2_036)), SHARED);
}

#[test]
fn a_single_process_makes_no_pause_and_remembers_nothing() {
    let start = Instant::now();
    let mut fairness = Fairness::new(true);
    fairness.on_granted(start);
    fairness.on_released(start);
    assert_eq!(fairness.pause(start + ms(900)), None);
    assert_eq!(fairness.forget_at(), None);
}

#[test]
fn rivals_are_remembered_for_longer_than_an_own_turn() {
    let start = Instant::now();
    let mut fairness = Fairness::new(false);
    assert_eq!(fairness.forget_at(), None);
    fairness.on_granted(start);
    fairness.on_released(start);
    assert_eq!(fairness.forget_at(), Some(start + ms(25)));
    fairness.on_rival_seen(start, false);
    assert_eq!(fairness.forget_at(), Some(start + ms(2_000)));
}
