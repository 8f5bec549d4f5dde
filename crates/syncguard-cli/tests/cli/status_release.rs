//! `status` and `release`.

use anyhow::{Result, ensure};

use crate::harness::Harness;

#[test]
fn status_says_who_holds_a_lock() -> Result<()> {
    let harness = Harness::file()?;
    ensure!(harness.run(&["status", "k"])?.expect(0)?.stdout == "free\n");
    let free = harness.run(&["status", "k", "--json", "--exit-code"])?.expect(0)?;
    ensure!(free.stdout == "{\"held\":false,\"key\":\"k\"}\n", "{free:?}");
    let holder = harness.holder("k", &[])?;
    let held = harness.run(&["status", "k"])?.expect(0)?;
    ensure!(held.stdout.starts_with("held for ") && held.stdout.contains("000000000000001"));
    ensure!(held.stdout.lines().all(|line| line.len() < 80), "{held:?}");
    harness.run(&["status", "k", "--exit-code"])?.expect(75)?;
    let held = harness.run(&["status", "k", "--json"])?.expect(0)?;
    ensure!(!held.stdout.contains("lockId\""), "{held:?}");
    holder.end()?.expect(0)?;
    Ok(())
}

#[test]
fn a_release_raises_the_fence() -> Result<()> {
    let harness = Harness::file()?;
    let done = harness.run(&["release", "--force", "k"])?.expect(0)?;
    ensure!(done.stdout == "the lock was free\n");
    let holder = harness.holder("k", &["--ttl", "2s"])?;
    let done = harness.run(&["release", "--force", "--json", "k"])?.expect(0)?;
    ensure!(done.stdout.contains("\"oldFence\":\"000000000000001\""), "{done:?}");
    ensure!(done.stdout.contains("\"newFence\":\"000000000000002\""), "{done:?}");
    holder.ended()?.expect(76)?;
    Ok(())
}
