//! How processes share one key, on a clock that costs no time.
//!
//! Each test fails without the rule in its name.

#![allow(clippy::print_stdout, reason = "the figures of a test that fails")]

mod store;
mod work;

use std::time::Duration;

use store::{Process, Signals, Store};
use syncguard_test_effort::either;
use work::{Counts, Work, ours, ours_within, simulate, steady, type_script};

const NEAR: Duration = Duration::from_micros(250);

fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=either(1, 2)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs four processes with this many tasks each. Also returns the commands for each turn.
fn four(seed: u64, tasks: u32, hold: u64, signals: Signals) -> ([Counts; 4], f64) {
    let store = Store::default();
    let counts = simulate(seed, 20 + hold, || {
        [(); 4].map(|()| ours(&Process::new(&store, NEAR, signals), tasks, &Work::of(ms(hold))))
    });
    let turns: u32 = counts.iter().map(|counts| counts.turns).sum();
    let commands = f64::from(store.commands()) / f64::from(turns);
    println!("{signals:?}, {tasks} tasks, {hold} ms: {commands:.2} commands, {counts:?}");
    (counts, commands)
}

#[test]
fn a_process_that_has_had_its_turn_lets_rivals_in() {
    for seed in seeds() {
        for signals in [Signals::Lasting, Signals::Once] {
            for (tasks, hold) in [(4, 1), (1, 1), (2, 50), (2, 200)] {
                let (counts, _) = four(seed, tasks, hold, signals);
                for process in &counts {
                    let share = process.share(counts);
                    assert!((20.0..=30.0).contains(&share), "{share} %");
                    assert_eq!(process.time_outs, 0);
                    // Chance decides between rivals, so there are six rounds of all processes.
                    let bound = ms(6 * u64::from(4 * tasks) * hold + 10 * 16);
                    assert!(process.longest_wait <= bound, "{:?}", process.longest_wait);
                }
            }
        }
    }
}

#[test]
fn a_process_far_from_the_store_gets_its_turn() {
    for seed in seeds() {
        for signals in [Signals::Lasting, Signals::Once] {
            for (latency, hold, tasks) in
                [(1, 1, 1), (1, 5, 2), (2, 5, 1), (2, 1, 2), (5, 1, 2), (5, 5, 1)]
            {
                let store = Store::default();
                let [_, far] = simulate(seed, 30, || {
                    let near = Process::new(&store, NEAR, signals);
                    let far = Process::new(&store, ms(latency), signals);
                    let rests = Work { rest: ms(500)..ms(1_000), ..Work::of(ms(hold)) };
                    [ours(&near, tasks, &Work::of(ms(hold))), ours(&far, 1, &rests)]
                });
                println!("{latency} ms away, {tasks} tasks of {hold} ms: {far:?}");
                assert_eq!(far.time_outs, 0);
                assert!(far.longest_wait <= ms(1_000 + 5 * hold), "{:?}", far.longest_wait);
            }
        }
    }
}

#[test]
fn a_waiter_that_lost_a_race_holds_back() {
    for seed in seeds() {
        for (signals, most) in [(Signals::Once, 6.0), (Signals::Lasting, 4.5)] {
            let (_, commands) = four(seed, 4, 1, signals);
            assert!(commands <= most, "{commands}");
        }
    }
}

#[test]
fn a_key_that_no_rival_wants_is_left_alone_for_a_small_part_of_the_time() {
    for seed in seeds() {
        for tasks in [1, 4] {
            let [(all, _), (some, looks)] = [true, false].map(|is_single| {
                let store = Store::default();
                let [counts] = simulate(seed, 20, || {
                    let process = Process::new(&store, NEAR, Signals::Lasting);
                    let process = if is_single { process.of_single_process() } else { process };
                    [ours(&process, tasks, &Work::of(ms(1)))]
                });
                println!("{} turns, {} commands", counts.turns, store.commands());
                (f64::from(counts.turns), store.commands().saturating_sub(2 * counts.turns))
            });
            assert!(some >= 0.95 * all, "{}", some / all);
            // Three polls in each pause.
            assert!((20..=80).contains(&looks), "{looks}");
        }
    }
}

/// The pauses of the TypeScript library are made for holders that leave the key free.
#[test]
fn clients_that_poll_find_the_key_free() {
    let work = Work { keys: 2, hold: ms(0)..ms(20), rest: ms(0)..ms(20) };
    for seed in seeds() {
        for signals in [Signals::Lasting, Signals::Once] {
            let store = Store::default();
            let counts = simulate(seed, 120, || {
                let process = || ours(&Process::new(&store, NEAR, signals), 5, &work);
                let poller = || type_script(&store, 5, &work);
                [process(), process(), poller(), poller()]
            });
            println!("{counts:#?}");
            let share: f64 = counts[2..].iter().map(|it| it.share(counts)).sum();
            let timed_out = counts[2..].iter().map(|it| it.timed_out()).fold(0.0, f64::max);
            assert!(share >= 20.0, "{share} %");
            assert!(timed_out <= 5.0, "{timed_out} %");
            for host in &counts[..2] {
                assert_eq!(host.time_outs, 0);
                // The release of a client that polls gives no signal.
                assert!(host.longest_wait <= ms(1_500), "{:?}", host.longest_wait);
            }
        }
    }
}

/// A loop without breaks leaves the key free for longer than the pause of such a client, now and then.
#[test]
fn a_newcomer_that_polls_is_let_in_beside_a_loop() {
    for seed in 1..=either(1, 4) {
        for (tasks, hold) in [(1, 1), (4, 1), (1, 40)] {
            let store = Store::default();
            let [_, newcomer] = simulate(seed, 60, || {
                let near = Process::new(&store, NEAR, Signals::Lasting);
                let polls = Process::new(&store, NEAR, Signals::None);
                let seldom = Work { rest: ms(2_500)..ms(4_500), ..Work::of(ms(1)) };
                [ours(&near, tasks, &Work::of(ms(hold))), steady(&polls, &seldom)]
            });
            println!("{tasks} tasks of {hold} ms: {newcomer:?}");
            assert!(newcomer.turns >= 6, "{newcomer:?}");
            assert_eq!(newcomer.time_outs, 0, "within 5 s");
        }
    }
}

/// Its heads have little time left when their turn comes.
#[test]
fn a_process_with_more_waiters_than_it_can_serve_lets_rivals_in() {
    for seed in seeds() {
        let store = Store::default();
        let [crowd, rival] = simulate(seed, 20, || {
            let process = || Process::new(&store, NEAR, Signals::Lasting);
            let impatient = ours_within(&process(), 200, &Work::of(ms(5)), ms(500));
            [impatient, ours(&process(), 1, &Work::of(ms(5)))]
        });
        println!("{crowd:?}, {rival:?}");
        assert!(crowd.time_outs > 0, "the limit was meant to be too short");
        assert_eq!(rival.time_outs, 0);
        let share = rival.share([crowd, rival]);
        assert!(share >= 15.0, "{share} %");
    }
}

/// A wait lasts for two thirds of its limit where all get their turn in order.
#[test]
fn a_head_with_little_time_left_goes_first() {
    for seed in seeds() {
        let (counts, _) = four(seed, 16, 50, Signals::Lasting);
        assert_eq!(counts.map(|process| process.time_outs), [0; 4]);
    }
}
