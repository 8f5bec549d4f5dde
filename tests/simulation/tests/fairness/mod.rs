//! How processes share one key, on a clock that costs no time.
//!
//! Each test fails without the rule in its name.

#![allow(clippy::print_stdout, reason = "the figures of a test that fails")]

mod store;
mod work;

use std::time::Duration;

use store::{Process, Signals, Store};
use syncguard_test_effort::either;
use work::{Counts, Tally, Work, ours, ours_within, simulate, type_script};

const NEAR: Duration = Duration::from_micros(250);

fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=either(1, 5)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn counts(tallies: &[Tally]) -> Vec<Counts> {
    tallies.iter().map(Tally::counts).collect()
}

/// Runs processes with this many tasks each, for longer in cases with turns. Also returns the commands for each turn.
fn equals(
    seed: u64,
    processes: u32,
    tasks: u32,
    hold: u64,
    signals: Signals,
) -> (Vec<Counts>, f64) {
    let store = Store::default();
    let tallies = simulate(seed, 20 + hold, async || {
        let process = |_| ours(&Process::new(&store, NEAR, signals), tasks, &Work::of(ms(hold)));
        (0..processes).map(process).collect::<Vec<_>>()
    });
    let counts = counts(&tallies);
    let turns: u32 = counts.iter().map(|counts| counts.turns).sum();
    let commands = u32::try_from(store.commands()).map_or(f64::NAN, f64::from) / f64::from(turns);
    println!("{signals:?} {processes} of {tasks}, {hold} ms: {commands:.2} commands");
    for counts in &counts {
        println!("  {counts:?}");
    }
    (counts, commands)
}

#[test]
fn a_process_that_has_had_its_turn_lets_rivals_in() {
    for seed in seeds() {
        for signals in [Signals::Lasting, Signals::Once] {
            for (tasks, hold) in [(4, 1), (1, 1), (2, 50), (2, 200)] {
                let (counts, _) = equals(seed, 4, tasks, hold, signals);
                for process in &counts {
                    let share = process.share(counts.clone());
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
                let far = simulate(seed, 30, async || {
                    let near = Process::new(&store, NEAR, signals);
                    let _ = ours(&near, tasks, &Work::of(ms(hold)));
                    let far = Process::new(&store, ms(latency), signals);
                    ours(&far, 1, &Work { rest: ms(500)..ms(1_000), ..Work::of(ms(hold)) })
                });
                let far = far.counts();
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
        let (_, commands) = equals(seed, 4, 4, 1, Signals::Once);
        assert!(commands <= 6.0, "{commands}");
        let (_, commands) = equals(seed, 4, 4, 1, Signals::Lasting);
        assert!(commands <= 4.0, "{commands}");
    }
}

#[test]
fn a_key_that_no_rival_wants_is_left_alone_for_a_small_part_of_the_time() {
    for seed in seeds() {
        for tasks in [1, 4] {
            let turns = |is_single| {
                let store = Store::default();
                let tally = simulate(seed, 20, async || {
                    let process = Process::new(&store, NEAR, Signals::Lasting);
                    let process = if is_single { process.of_single_process() } else { process };
                    ours(&process, tasks, &Work::of(ms(1)))
                });
                let turns = tally.counts().turns;
                let commands = store.commands();
                println!("{turns} turns, {commands} commands");
                (f64::from(turns), commands.saturating_sub(2 * u64::from(turns)))
            };
            let ((all, _), (some, looks)) = (turns(true), turns(false));
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
            let tallies = simulate(seed, 120, async || {
                let process = |_| ours(&Process::new(&store, NEAR, signals), 5, &work);
                let poller = |_| type_script(&store, 5, &work);
                (0..2).map(process).chain((0..2).map(poller)).collect::<Vec<_>>()
            });
            let counts = counts(&tallies);
            println!("{counts:#?}");
            let share: f64 = counts[2..].iter().map(|it| it.share(counts.clone())).sum();
            let timed_out = counts[2..].iter().map(|it| it.timed_out()).fold(0.0, f64::max);
            assert!(share >= 30.0, "{share} %");
            assert!(timed_out <= 2.0, "{timed_out} %");
            for host in &counts[..2] {
                assert_eq!(host.time_outs, 0);
                // The release of a client that polls gives no signal.
                assert!(host.longest_wait <= ms(1_500), "{:?}", host.longest_wait);
            }
        }
    }
}

#[test]
fn a_process_without_signals_gets_its_turn_beside_processes_that_hear() {
    for seed in seeds() {
        // The farther process hears of a release later than a near rival does.
        for (latency, least) in [(NEAR, 40.0), (ms(1), 30.0)] {
            let store = Store::default();
            let tallies = simulate(seed, 60, async || {
                let hears = Process::new(&store, NEAR, Signals::Lasting);
                let polls = Process::new(&store, latency, Signals::None);
                vec![ours(&hears, 16, &Work::of(ms(1))), ours(&polls, 16, &Work::of(ms(1)))]
            });
            let counts = counts(&tallies);
            let share = counts[1].share(counts.clone());
            println!("{latency:?} away: {share} %, {counts:#?}");
            assert!(share >= least, "{share} %");
            assert!(counts.iter().all(|it| it.time_outs == 0));
        }
    }
}

/// Its heads have little time left when their turn comes.
#[test]
fn a_process_with_more_waiters_than_it_can_serve_lets_rivals_in() {
    for seed in seeds() {
        let store = Store::default();
        let (crowd, rival) = simulate(seed, 20, async || {
            let process = || Process::new(&store, NEAR, Signals::Lasting);
            let impatient = ours_within(&process(), 200, &Work::of(ms(5)), ms(500));
            (impatient, ours(&process(), 1, &Work::of(ms(5))))
        });
        let (crowd, rival) = (crowd.counts(), rival.counts());
        println!("{crowd:?}, {rival:?}");
        assert!(crowd.time_outs > 0, "the limit was meant to be too short");
        assert_eq!(rival.time_outs, 0);
        let share = rival.share([crowd, rival]);
        assert!(share >= 15.0, "{share} %");
    }
}
