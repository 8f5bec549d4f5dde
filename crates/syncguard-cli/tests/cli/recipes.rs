//! Locks of recipes, as `ls`, `status` and `watch` show them.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use syncguard::CancellationToken;
use syncguard::recipes::{Election, ElectionHandle, Term};
use syncguard_test_services::wait;
use tokio::runtime::Builder;

use crate::harness::{Harness, LONG, StoreTest};
use crate::schema::Schema;

pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[("recipes", recipes)];

/// Terms, ticks and permits have their recipe; other locks have none.
fn recipes(harness: &Harness) -> Result<()> {
    let shutdown = CancellationToken::new();
    let (url, until, (sender, handles)) = (harness.url.clone(), shutdown.clone(), channel());
    let leaders = thread::spawn(move || lead(&url, &until, &sender));
    for handle in handles.recv().context("a failed election")? {
        wait::until("a leader", LONG, || Ok(handle.is_leader()))?;
    }
    let permit = harness.holder("recipe:permit", &["--permits", "2"])?;
    let lock = harness.holder("recipe:lock", &[])?;
    let tick =
        harness.holder("recipe:tick", &["--tick", "0 0 29 2 *", "--max-lateness", "9years"])?;

    let expected = [
        ("recipe:lock", None),
        ("recipe:noted", None),
        ("recipe:permit:permit:N", Some("semaphore")),
        ("recipe:term", Some("election")),
        ("recipe:tick", Some("ticks")),
        ("recipe:unnamed", None),
    ];
    // A semaphore takes any free permit.
    let numberless =
        |key: &str| key.replace(":permit:0", ":permit:N").replace(":permit:1", ":permit:N");
    let listed = harness.run(&["ls", "--json", "recipe:"])?.expect(0)?.stdout;
    Schema::of("ls")?.check_lines(&listed)?;
    check(&listed, &expected, &numberless)?;
    let table = harness.run(&["ls", "recipe:"])?.expect(0)?.stdout;
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().rev().take(2).collect()).collect();
    ensure!(rows[0] == ["KEY", "RECIPE"], "{table}");
    for (row, (key, recipe)) in rows[1..].iter().zip(&expected) {
        ensure!(numberless(row[0]) == *key && row[1] == recipe.unwrap_or("-"), "{table}");
    }

    for (key, recipe) in [("recipe:term", "election"), ("recipe:tick", "ticks")] {
        let status = harness.run(&["status", key])?.expect(0)?.stdout;
        ensure!(status.contains(&format!("\nrecipe    {recipe}\nfence ")), "{status}");
    }
    let status = harness.run(&["status", "recipe:noted"])?.expect(0)?.stdout;
    ensure!(status.contains("\nnote      run 4711\n") && !status.contains("recipe  "), "{status}");
    let status = harness.run(&["status", "--json", "recipe:term"])?.expect(0)?.stdout;
    Schema::of("status")?.check_lines(&status)?;
    ensure!(serde_json::from_str::<Value>(&status)?["recipe"] == "election", "{status}");

    let mut watch = harness.start(&["watch", "--json", "recipe:"])?;
    let look = watch.line()?;
    Schema::of("watch")?.check_lines(&look)?;
    let look: Value = serde_json::from_str(&look)?;
    let locks = look["locks"].as_array().context("locks")?;
    let lines: Vec<String> = locks.iter().map(Value::to_string).collect();
    check(&lines.join("\n"), &expected, &numberless)?;
    watch.signal(Signal::TERM)?;
    watch.ended()?.expect(143)?;

    shutdown.cancel();
    leaders.join().ok().context("a thread that panicked")??;
    for holder in [permit, lock, tick] {
        holder.end()?.expect(0)?;
    }
    Ok(())
}

/// Leads in three elections until the token fires.
fn lead(
    url: &str,
    shutdown: &CancellationToken,
    handles: &Sender<[ElectionHandle; 3]>,
) -> Result<()> {
    async fn work(term: Term) {
        term.lost().await;
    }

    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let backend = syncguard::connect(url).await?;
        let election = |key| Election::new(backend.clone(), key).with_shutdown(shutdown.clone());
        let elections = [
            election("recipe:term"),
            election("recipe:noted").with_note("run 4711"),
            election("recipe:unnamed").with_holder("").with_note(""),
        ];
        handles.send(elections.each_ref().map(Election::handle))?;
        let [one, two, three] = elections.map(|election| election.run(work));
        tokio::try_join!(one, two, three)?;
        Ok(())
    })
}

/// Compares the keys and recipes of lines of JSON.
fn check(
    lines: &str,
    expected: &[(&str, Option<&str>)],
    numberless: &impl Fn(&str) -> String,
) -> Result<()> {
    let mut found = Vec::new();
    for line in lines.lines() {
        let lock: Value = serde_json::from_str(line)?;
        let key = numberless(lock["key"].as_str().context("a key")?);
        found.push((key, lock["recipe"].as_str().map(str::to_owned)));
    }
    let expected: Vec<_> = expected
        .iter()
        .map(|(key, recipe)| ((*key).to_owned(), recipe.map(str::to_owned)))
        .collect();
    ensure!(found == expected, "{lines}");
    Ok(())
}
