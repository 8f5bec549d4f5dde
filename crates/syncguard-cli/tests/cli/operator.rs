//! The lock of a process that is stopped: an operator finds it, and frees it by the label of its holder.

#![allow(clippy::print_stdout, reason = "times for a human eye")]

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use syncguard_test_services::wait;

use crate::harness::{Harness, LONG, StoreTest};

/// The tests for every store.
pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[("a_lock_that_is_stuck", a_lock_that_is_stuck)];

fn a_lock_that_is_stuck(harness: &Harness) -> Result<()> {
    let (key, label) = ("stuck:report", "reports-0 of the night");
    // Long enough to free the lock before it expires, and short enough to wait for a renewal.
    let options = ["run", "--ttl", "15s", "--holder", label, "--note", "run 4711"];
    let work = [key, "--", "sh", "-c", "echo $SYNCGUARD_FENCE; read -r end"];
    let mut stopped = harness.start(&[&options[..], &work].concat())?;
    let old_fence = stopped.line()?;
    let bystander = harness.holder("stuck:not", &["--holder", "reports-1 of the night"])?;
    stopped.signal(Signal::STOP)?;

    let began = Instant::now();
    let mut listed = String::new();
    wait::until("locks of that age", LONG, || {
        let done = harness.run(&["ls", "--longer-than", "1s", "--json", "stuck:*"])?;
        listed = done.stdout;
        Ok(done.status == 75 && listed.lines().count() == 2)
    })?;
    let locks = listed.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let lock = locks.iter().find(|lock| lock["key"] == key).context("the lock")?;
    ensure!(lock["holder"] == label && lock["fence"] == old_fence.as_str(), "{lock}");
    let found_after = began.elapsed();

    let status = harness.run(&["status", key])?.expect(0)?.stdout;
    ensure!(status.contains(&format!("by {label}\nnote      run 4711\n")), "{status}");
    let seen_after = began.elapsed();

    let done = harness.run(&["release", "--holder", label, "--force"])?.expect(0)?;
    ensure!(done.stdout.starts_with(&format!("{key}: released")), "{done:?}");
    ensure!(done.stdout.lines().count() == 1, "{done:?}");
    let freed_after = began.elapsed();

    let work = ["run", "--no-wait", key, "--", "sh", "-c", "echo $SYNCGUARD_FENCE"];
    let new_fence = harness.run(&work)?.expect(0)?.stdout;
    // Texts of 15 digits.
    ensure!(new_fence.trim() > old_fence.as_str(), "{new_fence} after {old_fence}");
    let granted_after = began.elapsed();

    stopped.signal(Signal::CONT)?;
    let continued = Instant::now();
    let done = stopped.ended()?.expect(76)?;
    ensure!(done.stderr.contains("lost"), "{done:?}");
    let store = harness.url.split_once(':').map_or("", |(scheme, _)| scheme);
    println!(
        "{store}: found {found_after:.2?} after the stop, seen {seen_after:.2?}, freed {freed_after:.2?}, \
         granted to another process {granted_after:.2?}; the continued process knew it after {:.2?}",
        continued.elapsed()
    );
    bystander.end()?.expect(0).map(drop)
}
