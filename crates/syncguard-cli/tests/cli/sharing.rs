//! `syncguard run --shared` and `--exclusive`.

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::wait;

use crate::harness::{Finished, Harness, LONG, StoreTest};

pub(crate) const ON_EVERY_STORE: &[StoreTest] =
    &[("readers_and_a_writer", readers_and_a_writer), ("nested_sharing", nested_sharing)];

const SHOW: &str =
    "echo $SYNCGUARD_FENCE $SYNCGUARD_SHARING ${SYNCGUARD_SLOT-none}; read -r end; exit 0";

/// The keys of the locks that are held.
fn held(harness: &Harness) -> Result<Vec<String>> {
    let listed = harness.run(&["ls", "--json", "index"])?.expect(0)?.stdout;
    let keys = listed.lines().map(|line| {
        let lock: serde_json::Value = serde_json::from_str(line)?;
        ensure!(lock["recipe"] == "rw_lock", "{line}");
        Ok(lock["key"].as_str().context("a key")?.to_owned())
    });
    keys.collect()
}

fn readers_and_a_writer(harness: &Harness) -> Result<()> {
    let start = |option| harness.start(&["run", option, "index", "--", "sh", "-c", SHOW]);
    let try_it = |option| harness.run(&["run", "-n", option, "index", "--", "true"]);
    // Their numbers differ: the largest one counts.
    let (mut first, mut second) = (start("--shared=2")?, start("--shared=4")?);
    let (one, two) = (first.line()?, second.line()?);
    let slots = [&one, &two].map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned());
    ensure!(
        one.contains(" shared ") && two.contains(" shared ") && slots[0] != slots[1],
        "{one} {two}"
    );
    let done = try_it("--exclusive=2")?.expect(75)?;
    ensure!(done.stderr.contains("other processes hold the lock"), "{done:?}");

    let mut writer = start("--exclusive=1")?;
    let gate = |keys: &[String]| keys.contains(&"index:rw:gate".to_owned());
    wait::until("the gate", LONG, || Ok(gate(&held(harness)?)))?;
    try_it("--shared=4")?.expect(75)?;
    first.end()?.expect(0)?;
    second.end()?.expect(0)?;
    let write = writer.line()?;
    ensure!(write.ends_with(" exclusive none") && write > one && write > two, "{write}");
    ensure!(held(harness)?.len() == 5, "four slots and the gate: {:?}", held(harness)?);
    let status = harness.run(&["status", "index"])?.expect(0)?.stdout;
    let summary = "free\nthe gate and 4 slots of the readers and writers with this key are held\ngate held for ";
    ensure!(status.starts_with(summary) && status.contains("\nslot 3 held for "), "{status}");
    let status = harness.run(&["status", "index", "--json"])?.expect(0)?.stdout;
    ensure!(
        status.contains(r#""gateHeld":true"#) && status.contains(r#""slotsHeld":4"#),
        "{status}"
    );
    let free = harness.run(&["release", "--force", "index"])?.expect(0)?;
    ensure!(free.stdout.contains("the lock was free"), "{free:?}");
    ensure!(free.stderr.contains("as gate is by index:rw:gate"), "{free:?}");
    for option in ["--shared", "--exclusive"] {
        try_it(option)?.expect(75)?;
    }
    // The lock of the key is another lock.
    ensure!(harness.is_free("index")?);
    let mut reader = start("--shared=4")?;
    writer.end()?.expect(0)?;
    ensure!(reader.line()? > write);
    reader.end()?.expect(0)?;
    try_it("--exclusive=4")?.expect(0)?;
    ensure!(held(harness)?.is_empty());
    Ok(())
}

/// A command that would wait for itself is told so.
fn nested_sharing(harness: &Harness) -> Result<()> {
    let program = env!("CARGO_BIN_EXE_syncguard");
    // A command gets the URL of the store without its password.
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), &harness.url)?;
    let run = |arguments: &[&str]| -> Result<Finished> {
        let output =
            harness.command(arguments).env("SYNCGUARD_STORE_FILE", file.path()).output()?;
        Ok(harness.checked(&output))
    };
    for outer in ["--shared=2", "--exclusive=2"] {
        for inner in ["--shared=2", "--exclusive=2"] {
            let nested =
                ["run", outer, "nested", "--", program, "run", inner, "nested", "--", "true"];
            let done = run(&nested)?.expect(64)?;
            let name = outer.trim_end_matches("=2");
            let message = format!("this command already runs with {name} under this lock");
            ensure!(done.stderr.contains(&message), "{done:?}");
        }
        let other = ["run", outer, "nested", "--", program, "run", outer, "another", "--", "true"];
        run(&other)?.expect(0)?;
    }
    Ok(())
}
