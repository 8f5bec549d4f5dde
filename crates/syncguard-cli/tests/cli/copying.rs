//! `copy-fences`: between all pairs of stores, and of many counters.

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::store::Store;
use syncguard_test_services::wait;

use crate::harness::{Finished, Harness, LONG};

#[test]
fn fences_go_from_each_store_to_each_other_one() -> Result<()> {
    // The command refuses a store that ends with its process.
    let shared = Store::ALL.into_iter().filter(|store| store.is_shared());
    let running = shared.map(|store| Ok((store, store.start()?)));
    let running = running.collect::<Result<Vec<_>>>()?;
    // One has a counterpart of its own kind.
    let parts = running.iter().map(|running| (running, "cli")).chain([(&running[0], "other")]);
    let stores: Vec<_> = parts
        .map(|((store, running), part)| {
            Harness::at(store.with_timeouts(running.url(part), 60_000), None)
        })
        .collect();
    for (number, from) in stores.iter().enumerate() {
        for (other, to) in stores.iter().enumerate().filter(|(other, _)| *other != number) {
            copy(from, to, &format!("copied:{number}:{other}"))
                .with_context(|| format!("from {} to {}", from.url, to.url))?;
        }
    }
    Ok(())
}

fn fence_of_a_lock(harness: &Harness, key: &str) -> Result<u64> {
    let show = ["run", "-n", key, "--", "sh", "-c", "echo $SYNCGUARD_FENCE"];
    Ok(harness.run(&show)?.expect(0)?.stdout.trim().parse()?)
}

/// Copies with a held lock, without, and once more.
fn copy(from: &Harness, to: &Harness, prefix: &str) -> Result<()> {
    let key = |name: &str| format!("{prefix}:{name}");
    for (name, fence) in
        [("ahead", "1000"), ("b/ehind", "1001"), ("l\u{f6}nger", "800000000000000")]
    {
        from.run(&["fence", "raise", &key(name), fence])?.expect(0)?;
    }
    // A counter that is ahead stays ahead.
    to.run(&["fence", "raise", &key("ahead"), "5000"])?.expect(0)?;
    let run = |more: &[&str]| {
        let mut command = from.command(&[&["copy-fences", "--json"][..], more].concat());
        command.env("SYNCGUARD_FROM", &from.url).env("SYNCGUARD_TO", &to.url);
        command.output()
    };
    let holder = from.holder(&key("held"), &[])?;
    let refused = run(&[])?;
    ensure!(refused.status.code() == Some(75), "{refused:?}");
    ensure!(String::from_utf8_lossy(&refused.stderr).contains("--while-held"), "{refused:?}");
    ensure!(to.run(&["fence", "show", &key("held")])?.expect(0)?.stdout.starts_with("none"));
    ensure!(run(&["--while-held"])?.status.success());
    holder.end()?.expect(0)?;
    // Run again, as after an interruption.
    let done = run(&[])?;
    ensure!(done.status.success(), "{done:?}");
    for (name, least) in
        [("ahead", 5001), ("b/ehind", 1002), ("l\u{f6}nger", 800_000_000_000_001), ("held", 2)]
    {
        let fence = fence_of_a_lock(to, &key(name))?;
        ensure!(fence == least, "{name}: {fence}");
    }
    Ok(())
}

/// More counters than a listing has on one page. Those of the first page are corrupt.
#[test]
fn all_counters_are_copied() -> Result<()> {
    let redis = RedisServer::start()?;
    let (from, to) = (Harness::at(redis.url(), None), Harness::file()?);
    // The counters as many acquires would leave them.
    let fill = "local name = 'syncguard:fence:syncguard:' \
                for i = 1, 1000 do redis.call('SET', name .. 'bad:' .. i, 'x') end \
                for i = 1, 100 do redis.call('SET', name .. 'many:' .. i, 1000 + i) end";
    redis.cli(&["EVAL", fill, "0"])?;
    let mut copy = from.command(&["copy-fences"]);
    copy.env("SYNCGUARD_FROM", &from.url).env("SYNCGUARD_TO", &to.url);
    let done = Finished::of(&copy.output()?).expect(70)?;
    ensure!(done.stdout.ends_with(" old store: 100\n"), "{done:?}");
    ensure!(done.stderr.contains(" not copied: 1000, "), "{done:?}");
    from.run(&["fence", "find", "0123456789"])?.expect(70)?;
    for number in [1, 50, 100] {
        // Each counter is equal to the old one, so each first fence is one above it.
        ensure!(fence_of_a_lock(&to, &format!("many:{number}"))? == 1001 + number);
    }
    // While they are copied back, a program that was forgotten takes a lock.
    redis.cli(&["CLIENT", "PAUSE", "600000", "WRITE"])?;
    let mut copy = to.command(&["copy-fences"]);
    let patient = format!("{}?operation_timeout_ms=600000", redis.url());
    copy.env("SYNCGUARD_FROM", &to.url).env("SYNCGUARD_TO", patient);
    let copying = Harness::spawn(copy)?;
    let waits = || Ok(redis.cli(&["INFO", "clients"])?.contains("blocked_clients:1"));
    wait::until("a write", LONG, waits)?;
    let holder = to.holder("many:1", &[])?;
    redis.cli(&["CLIENT", "UNPAUSE"])?;
    let done = copying.ended()?.expect(75)?;
    ensure!(done.stderr.contains("locks are held on the old store (1)"), "{done:?}");
    holder.end()?.expect(0).map(drop)
}
