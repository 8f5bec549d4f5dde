//! `status` and `release`.

use anyhow::{Result, ensure};
use syncguard_test_services::redis::RedisServer;

use crate::harness::Harness;
use crate::schema::Schema;

/// Reads what `status` says about the permits of a semaphore.
fn counts_permits(harness: &Harness) -> Result<()> {
    let first = harness.holder("exports", &["--permits", "3"])?;
    let second = harness.holder("exports", &["--permits", "3"])?;
    // Permits of other semaphores do not count.
    let longer = harness.holder("exports:permit:7", &["--permits", "1"])?;
    let done = harness.run(&["status", "exports"])?.expect(0)?;
    let lines: Vec<&str> = done.stdout.lines().collect();
    ensure!(lines.len() == 4 && lines[0] == "free", "{done:?}");
    ensure!(lines[1] == "2 permits of the semaphore with this key are held", "{done:?}");
    // A semaphore takes any free permit.
    let permits: Vec<&str> =
        lines[2..].iter().filter_map(|line| line.split(" held for ").next()).collect();
    let numbers = ["permit 0", "permit 1", "permit 2"];
    ensure!(
        permits.is_sorted() && permits.iter().all(|permit| numbers.contains(permit)),
        "{done:?}"
    );
    ensure!(permits[0] != permits[1] && lines[2].contains(", by "), "{done:?}");
    let done = harness.run(&["status", "exports", "--json", "-e"])?.expect(0)?;
    ensure!(done.stdout == "{\"held\":false,\"key\":\"exports\",\"permitsHeld\":2}\n", "{done:?}");
    Schema::of("status")?.check_lines(&done.stdout)?;
    // A lock with the key itself has nothing to do with the permits.
    let plain = harness.holder("exports", &[])?;
    let done = harness.run(&["status", "exports"])?.expect(0)?;
    ensure!(done.stdout.starts_with("held for "), "{done:?}");
    ensure!(done.stdout.contains("\n2 permits of the semaphore"), "{done:?}");
    for holder in [first, second, longer, plain] {
        holder.end()?.expect(0)?;
    }
    ensure!(harness.run(&["status", "exports"])?.expect(0)?.stdout == "free\n");
    // The key of a semaphore is shorter than this one, so nothing is looked up.
    harness.run(&["status", &"k".repeat(512)])?.expect(0)?;
    Ok(())
}

#[test]
fn status_counts_permits() -> Result<()> {
    counts_permits(&Harness::file()?)
}

/// On Redis the permits are looked up one by one.
#[test]
fn status_counts_permits_on_redis() -> Result<()> {
    let server = RedisServer::start()?;
    counts_permits(&Harness::at(server.url(), None))
}

/// Neither the release nor the new fence needs memory.
#[test]
fn a_lock_is_taken_away_on_a_full_server() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    harness.run(&["acquire", "k", "--ttl", "1h", "--json"])?.expect(0)?;
    server.cli(&["CONFIG", "SET", "maxmemory", "100kb"])?;
    let released = harness.run(&["release", "k", "--force"])?.expect(0)?;
    ensure!(released.stdout.contains("the counter is at 000000000000002"), "{released:?}");
    harness.run(&["acquire", "k", "--ttl", "1h", "--json"])?.expect(69)?;
    ensure!(harness.run(&["status", "k"])?.expect(0)?.stdout == "free\n");
    Ok(())
}
