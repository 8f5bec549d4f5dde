//! The tests that only `cargo xtask test --full` runs, and why a contributor need not wait for them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::output;

/// Tests of one program, by the beginning of their names.
struct Later {
    program: &'static str,
    tests: &'static [&'static str],
    reason: &'static str,
}

const LATER: &[Later] = &[
    Later {
        program: "tests redis",
        tests: &["conformance::pool::"],
        reason: "another client on the layout that conformance::bare proves",
    },
    Later {
        program: "tests redis",
        tests: &[
            "sharded_faults::slots_that_move_back_and_forth_break_nothing",
            "sharded_faults::a_client_that_knows_an_old_topology_finds_its_locks",
            "sharded_faults::a_node_that_joins_and_leaves_breaks_nothing",
            "sharded_faults::a_failover_with_replicas_waited_for_breaks_nothing",
            "sharded_faults::a_node_that_is_paused_and_goes_on_breaks_nothing",
        ],
        reason: "clusters that are rebuilt under load, half a minute each; a failover and a pause stay",
    },
    Later {
        program: "tests redis",
        tests: &[
            "sharded::load::",
            "signals::a_thousand_keys_share_one_connection_which_goes_when_nobody_waits",
        ],
        reason: "thousands of keys; the same rules are shown with few",
    },
    Later {
        program: "tests field",
        tests: &[
            "redis::lists::a_slow_connection_is_opened_for_the_next_caller",
            "redis::moved::a_name_that_moves_later_is_looked_up_once_a_second",
            "redis::pauses::the_first_call_after_a_pause_succeeds",
        ],
        reason: "seconds of real time",
    },
    Later {
        program: "tests postgres",
        tests: &["conformance::one_connection"],
        reason: "another pool on the layout that conformance::bare proves",
    },
    Later {
        program: "tests postgres",
        tests: &["churn::", "waiting::ten_thousand_tasks_share_a_key_and_eight_connections"],
        reason: "sizes and speed under load, minutes long",
    },
    Later {
        program: "tests postgres",
        tests: &[
            "late_sessions::a_late_table_piles_up_no_sessions_behind_pgbouncer",
            "late_sessions::a_late_table_piles_up_no_sessions_of_a_users_pool",
            "late_sessions::late_commits_pile_up_no_sessions_behind_pgbouncer",
            "late_sessions::late_commits_pile_up_no_sessions_of_a_users_pool",
            "late_sessions::late_commits_that_nobody_can_cancel_pile_up_no_sessions",
        ],
        reason: "half a minute each; the same with the backend's own pool stays",
    },
    Later {
        program: "tests postgres",
        tests: &["schema::a_column_for_holders_that_comes_later_is_noticed"],
        reason: "half a minute of real time",
    },
    Later {
        program: "tests firestore",
        tests: &["conformance::without_a_memory_of_locks"],
        reason: "the suite once more without a cache, minutes on the emulator; hints:: and takeover:: stay",
    },
    Later {
        program: "tests firestore",
        tests: &["progress::two_hundred_get_their_turn", "progress::sixteen_on_keys_of_their_own"],
        reason: "speed under load; sixteen on one key stay",
    },
    Later {
        program: "tests field",
        tests: &["redis::lasting::", "postgres::lasting::", "firestore::lasting::"],
        reason: "locks of 30 s through troubles, a minute long",
    },
    Later {
        program: "tests field",
        tests: &[
            "firestore::connections::",
            "postgres::connections::a_backend_outlives_its_runtimes",
            "postgres::connections::a_pool_of_silent_connections_costs_one_call",
            "postgres::connections::a_silent_host_does_not_keep_callers_from_the_others",
            "postgres::connections::an_opening_whose_caller_gives_up_goes_on_for_the_next",
            "postgres::connections::another_server_is_looked_for_once_a_second",
        ],
        reason: "seconds of real time, in which a connection is silent",
    },
    Later {
        program: "tests sqlite",
        tests: &["watch::a_thousand_keys_are_watched_by_one_thread"],
        reason: "a thousand keys; the same rules are shown with few",
    },
    Later {
        program: "core late",
        tests: &["what_is_beyond_the_bound_is_left_to_its_ttl_and_counted"],
        reason: "needs a quarter of a million locks",
    },
    Later {
        program: "model firestore",
        tests: &[
            "nothing_breaks_the_commits_of_clients_whose_clocks_differ",
            "nothing_is_lost_by_forgetting",
        ],
        reason: "millions of worlds; a smaller model and every planted flaw stay",
    },
    Later {
        program: "model postgres",
        tests: &["nothing_is_lost_by_forgetting"],
        reason: "millions of worlds, three times; the models themselves and every planted flaw stay",
    },
    Later {
        program: "model syncguard_model (unit tests)",
        tests: &["reduce::tests::forgetting_changes_nothing_on_firestore"],
        reason: "millions of worlds; the same reduction on the other stores stays",
    },
];

/// The names that a quick run of this program skips.
pub(super) fn skipped(program: &str) -> impl Iterator<Item = &'static str> {
    let mine = LATER.iter().filter(move |later| later.program == program);
    mine.flat_map(|later| later.tests.iter().copied())
}

pub(super) fn list() -> String {
    let mut text = String::new();
    for Later { program, tests, reason } in LATER {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{program}: {}\n    {reason}", tests.join(", "));
    }
    text
}

/// Each test that is named above exists, so that no test is wrongly believed to run at night.
pub(super) fn check(programs: &[(&str, &Path)]) -> Result<()> {
    for Later { program, tests, .. } in LATER {
        let path = programs.iter().find(|(name, _)| name == program).map(|(_, path)| *path);
        let path = path.with_context(|| unknown(program))?;
        let listed = output(Command::new(path).args(["--list", "--format", "terse"]))?;
        for test in *tests {
            ensure!(names(&listed, test), unknown(test));
            // libtest skips each test that has the word anywhere in its name.
            let others =
                listed.lines().filter(|line| line.contains(test) && !line.starts_with(test));
            ensure!(others.count() == 0, "`{test}` also skips tests that do not begin so");
        }
    }
    Ok(())
}

fn unknown(name: &str) -> String {
    format!("xtask/src/test/later.rs names `{name}`, which is not there")
}

/// Returns true if libtest's list has a test whose name begins with this text.
fn names(listed: &str, test: &str) -> bool {
    listed.lines().any(|line| line.starts_with(test) && line.ends_with(": test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_not_there_is_noticed() {
        let listed = "a::b: test\nbench: benchmark\n";
        assert!(names(listed, "a::"));
        assert!(!names(listed, "b") && !names(listed, "bench"));
        assert!(check(&[]).unwrap_err().to_string().contains("which is not there"));
    }

    #[test]
    fn each_test_is_listed_with_its_reason() {
        let list = list();
        assert!(list.contains("core late: what_is_beyond_the_bound"), "{list}");
        assert!(list.contains("a quarter of a million locks"), "{list}");
    }
}
