//! Mistakes that users of `flock` and of shells make.

use anyhow::{Result, ensure};
use syncguard_test_services::postgres::PostgresServer;

use crate::harness::Harness;

#[test]
fn a_line_for_a_shell_is_answered_with_sh_c() -> Result<()> {
    let harness = Harness::file()?;
    for (arguments, status, says) in [
        (&["run", "k", "echo a; echo b"][..], 127, "run KEY -- sh -c 'echo a; echo b'"),
        (&["run", "k", "./a.sh --all"], 127, "run KEY -- sh -c './a.sh --all'"),
        (&["run", "k", "echo 'x'"], 127, r"sh -c 'echo '\''x'\'''"),
        (&["run", "k", "-c", "echo a; echo b"], 127, "run KEY -- sh -c 'echo a; echo b'"),
        (&["run", "-c", "echo a", "k"], 64, "syncguard run KEY -- sh -c 'LINE'"),
    ] {
        let done = harness.run(arguments)?.expect(status)?;
        ensure!(done.stderr.contains(says), "{arguments:?}: {done:?}");
    }
    let plain = harness.run(&["run", "k", "no-such-program"])?.expect(127)?;
    ensure!(!plain.stderr.contains("sh -c"), "{plain:?}");
    Ok(())
}

#[test]
fn setup_creates_tables_if_there_are_any() -> Result<()> {
    let done = Harness::file()?.run(&["setup"])?.expect(0)?;
    ensure!(done.stdout == "this store needs no setup\n", "{done:?}");
    let server = PostgresServer::start()?;
    let harness = Harness::at(server.url(), None);
    let done = harness.run(&["run", "k", "--", "true"])?.expect(64)?;
    ensure!(done.stderr.contains("run `syncguard setup`"), "{done:?}");
    for _ in 0..2 {
        let done = harness.run(&["setup"])?.expect(0)?;
        ensure!(done.stdout == "the tables are complete\n", "{done:?}");
    }
    harness.run(&["run", "k", "--", "true"])?.expect(0)?;
    Ok(())
}
