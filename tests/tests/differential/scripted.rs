//! The situations of the specification.

use crate::differential::script::{LONG, SHORT, Script};

#[tokio::test]
async fn whoever_comes_second_is_refused_and_can_do_nothing() {
    Script::new(&["held", "other"], 2)
        .finds_nothing(0, 0)
        .sees(0, false)
        .takes(0, 0, LONG, 1)
        .meets_a_lock(0, 1)
        .sees(0, true)
        .sees(1, false)
        .finds(0, 0, 1, 20)
        .knows_nothing_of(1)
        .finds(0, 0, 1, 20)
        .releases(0)
        .sees(0, false)
        .finds_nothing(0, 0)
        .knows_nothing_of(0)
        .takes(0, 1, LONG, 2)
        .knows_nothing_of(0)
        .finds(0, 1, 2, 20)
        .releases(1)
        .play()
        .await;
}

#[tokio::test]
async fn an_acquire_that_is_repeated_gets_the_same_lock() {
    Script::new(&["held"], 2)
        .takes(0, 0, LONG, 1)
        .takes(0, 0, LONG, 1)
        // The lock has the TTL of the first request.
        .takes(0, 0, 10 * LONG, 1)
        .finds(0, 0, 1, 20)
        .meets_a_lock(0, 1)
        .releases(0)
        .takes(0, 1, LONG, 2)
        .play()
        .await;
}

#[tokio::test]
async fn an_extend_sets_what_is_left_and_may_shorten_it() {
    Script::new(&["held"], 2)
        .takes(0, 0, LONG, 1)
        .extends(0, 10 * LONG)
        .finds(0, 0, 1, 200)
        .extends(0, LONG / 10)
        .finds(0, 0, 1, 2)
        .extends(0, SHORT)
        .meets_a_lock(0, 1)
        .passes()
        .sees(0, false)
        .takes(0, 1, LONG, 2)
        .play()
        .await;
}

#[tokio::test]
async fn an_expired_lock_is_live_for_a_second_and_then_for_nobody() {
    Script::new(&["held"], 3)
        .takes(0, 0, SHORT, 1)
        .meets_a_lock(0, 1)
        .sees(0, true)
        .finds(0, 0, 1, 0)
        .passes()
        .sees(0, false)
        .finds_nothing(0, 0)
        .has_run_out(0)
        .takes(0, 1, LONG, 2)
        .has_run_out(0)
        .meets_a_lock(0, 2)
        .finds(0, 1, 2, 20)
        .releases(1)
        .knows_nothing_of(1)
        .takes(0, 2, LONG, 3)
        .play()
        .await;
}

#[tokio::test]
async fn within_the_tolerance_the_holder_can_go_on() {
    Script::new(&["extended", "released"], 3)
        .takes(0, 0, SHORT, 1)
        .extends(0, LONG)
        .takes(1, 1, SHORT, 1)
        .releases(1)
        .knows_nothing_of(1)
        .takes(1, 2, LONG, 2)
        .passes()
        .sees(0, true)
        .finds(0, 0, 1, 20)
        .finds(1, 2, 2, 20)
        .play()
        .await;
}

#[tokio::test]
async fn an_expired_lock_is_not_revived_and_a_new_one_has_a_higher_fence() {
    Script::new(&["held"], 4)
        .takes(0, 0, SHORT, 1)
        .passes()
        .has_run_out(0)
        .takes(0, 1, SHORT, 2)
        .passes()
        .has_run_out(1)
        .takes(0, 2, SHORT, 3)
        .extends(2, SHORT)
        .passes()
        .takes(0, 3, LONG, 4)
        .has_run_out(2)
        .play()
        .await;
}

#[tokio::test]
async fn every_key_counts_for_itself_and_contention_counts_nothing() {
    Script::new(&["one", "two"], 4)
        .takes(0, 0, LONG, 1)
        .takes(1, 1, LONG, 1)
        .meets_a_lock(0, 2)
        .meets_a_lock(0, 3)
        .meets_a_lock(1, 2)
        .releases(0)
        .takes(0, 2, LONG, 2)
        .releases(2)
        .takes(0, 3, LONG, 3)
        .finds(1, 1, 1, 20)
        .releases(1)
        .takes(1, 0, LONG, 2)
        .play()
        .await;
}
