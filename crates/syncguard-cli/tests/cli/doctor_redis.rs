//! The commands that `syncguard doctor` tells an administrator of Redis to type.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syncguard_test_services::redis::{AppendOnly, RedisCluster, RedisServer};
use syncguard_test_services::wait;

use crate::harness::{Finished, Harness};

/// The mends of the doctor for this store, each with its subject.
fn mends(url: &str) -> Result<Vec<(String, String)>> {
    let done = Harness::at(url.to_owned(), None).run(&["doctor", "--json", "--rounds", "2"])?;
    let report: Value = serde_json::from_str(&done.stdout)?;
    let findings = report["findings"].as_array().context("findings")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let pair = |finding: &Value| Some((text(&finding["about"])?, text(&finding["mend"])?));
    Ok(findings.iter().filter_map(pair).collect())
}

/// Types the command before the explanation in parentheses, at another place than the server's default one.
fn type_at_a_shell(mend: &str) -> Result<()> {
    let line = mend.split(" (").next().unwrap_or_default();
    let mut shell = Command::new("sh");
    let done = Finished::of(&shell.args(["-c", line]).env_remove("REDISCLI_AUTH").output()?);
    ensure!(
        done.status == 0 && done.stdout.contains("OK") && !done.stdout.contains("ERR"),
        "{line}: {done:?}"
    );
    Ok(())
}

/// The commands that a rule allows: those of the guide's rule behind these words, or of the doctor's.
fn commands(rule: &str) -> BTreeSet<&str> {
    let words = rule.split_whitespace().map(|word| word.trim_matches('\''));
    words.filter(|word| word.starts_with('+')).collect()
}

fn guide(heading: &str) -> BTreeSet<&'static str> {
    let page = include_str!("../../../syncguard-redis/src/guide.md");
    let block = page.split(heading).nth(1).and_then(|behind| behind.split("```").nth(1));
    commands(block.unwrap_or_default())
}

/// With the rule, only `appendfsync` is left, which an administrator sees.
fn only_the_sync_is_unverified(url: &str) -> Result<()> {
    let found = mends(url)?;
    let [(about, mend)] = &found[..] else { anyhow::bail!("{found:?}") };
    ensure!(about == "durability" && mend.contains("URL of an administrator"), "{found:?}");
    Ok(())
}

/// A new user, which may do nothing.
fn new_user(server: &RedisServer) -> Result<()> {
    server.cli(&["ACL", "SETUSER", "locks", "reset", "on", ">pass"]).map(drop)
}

/// The rule that the doctor prints lets a user lock, and do nothing else.
#[test]
fn the_printed_rule_is_enough_and_not_more() -> Result<()> {
    let server = RedisServer::builder().append_only(AppendOnly::EverySecond).start()?;
    server.cli(&["CONFIG", "SET", "masterauth", "s3cret"])?;
    for parameters in ["", "?key_prefix=app", "/3?key_prefix=%7Bapp%7D"] {
        new_user(&server)?;
        let url = format!("redis://locks:pass@127.0.0.1:{}{parameters}", server.port());
        let found = mends(&url)?;
        // The mend of the settings is a part of the last one.
        let (about, mend) = found.last().context("a mend")?;
        ensure!(about == "connect" || about == "permissions", "{found:?}");
        type_at_a_shell(mend)?;
        if parameters == "?key_prefix=app" {
            ensure!(commands(mend) == guide("# Access rules"), "{mend}");
        }
        // Locks, signals, and the report of the server's settings.
        only_the_sync_is_unverified(&url)?;
        for forbidden in [
            &["FLUSHALL"][..],
            &["FLUSHDB"],
            &["SWAPDB", "0", "1"],
            &["KEYS", "*"],
            &["SCAN", "0"],
            &["CONFIG", "SET", "maxmemory", "1mb"],
            &["CONFIG", "GET", "requirepass"],
            &["CONFIG", "GET", "masterauth"],
            &["CONFIG", "GET", "appendfsync"],
            &["GET", "other:key"],
            &["SET", "other:key", "1"],
            &["EVAL", "return redis.call('DEL', 'other:key')", "0"],
            &["ACL", "LIST"],
            &["SHUTDOWN"],
            &["PUBLISH", "channel", "text"],
        ] {
            let login = ["--user", "locks", "--pass", "pass"];
            let answer = server.cli(&[&login[..], forbidden].concat());
            let denied = answer.as_ref().map_or_else(ToString::to_string, Clone::clone);
            ensure!(
                ["NOPERM", "can't access", "ACL failure"].iter().any(|word| denied.contains(word)),
                "{forbidden:?}: {denied}"
            );
        }
    }
    Ok(())
}

#[test]
fn the_rule_of_a_cluster_is_typed_once() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let url = cluster.url().replace("redis-cluster://", "redis-cluster://locks:pass@");
    for prefix in ["app", "%7Bapp%7D"] {
        for node in cluster.nodes() {
            node.cli(&["CONFIG", "SET", "appendonly", "yes"])?;
            new_user(node)?;
        }
        let url = format!("{url}&key_prefix={prefix}");
        let found = mends(&url)?;
        ensure!(found.len() == 1, "{found:?}");
        type_at_a_shell(&found[0].1)?;
        ensure!(commands(&found[0].1) == guide("For the sharded layout:"), "{found:?}");
        only_the_sync_is_unverified(&url)?;
    }
    Ok(())
}

/// Settings are changed at the server of the URL, and not at the one on the default port.
#[test]
fn settings_are_mended_by_what_is_to_be_typed() -> Result<()> {
    let server =
        RedisServer::builder().snapshots(true).max_memory("50mb", "allkeys-lru").start()?;
    let found = mends(&server.url())?;
    let subjects: Vec<&str> = found.iter().map(|(about, _)| about.as_str()).collect();
    ensure!(subjects.len() == 2, "{found:?}");
    ensure!(subjects.contains(&"persistence") && subjects.contains(&"eviction"), "{found:?}");
    for (_, mend) in found {
        type_at_a_shell(&mend)?;
    }
    ensure!(mends(&server.url())?.is_empty());
    Ok(())
}

/// One cause has one mend, which leads to it.
#[test]
fn a_server_that_grants_no_locks_has_one_finding() -> Result<()> {
    let safe = || RedisServer::builder().append_only(AppendOnly::EverySecond);
    let full = safe().max_memory("100kb", "noeviction").start()?;
    let master = safe().start()?;
    let replica = RedisServer::builder().replica_of(&master).start()?;
    for (server, subject, words) in
        [(&full, "permissions", "raise maxmemory"), (&replica, "role", "URL of the master")]
    {
        let found = mends(&server.url())?;
        let [(about, mend)] = &found[..] else { anyhow::bail!("{found:?}") };
        ensure!(about == subject && mend.contains(words), "{found:?}");
    }

    // The memory becomes full while the doctor works.
    let edge = safe().start()?;
    let doctor = Harness::at(edge.url(), None).start(&["doctor", "--rounds", "10000"])?;
    wait::until("a few rounds", Duration::from_secs(60), || {
        let counts = edge.cli(&["INFO", "commandstats"])?;
        let calls =
            counts.split("cmdstat_evalsha:calls=").nth(1).and_then(|it| it.split(',').next());
        Ok(calls.is_some_and(|calls| calls.len() > 1))
    })?;
    edge.cli(&["CONFIG", "SET", "maxmemory", "1"])?;
    let text = doctor.ended()?.expect(78)?.stdout;
    ensure!(text.contains("[red   ] permissions: ") && text.contains("raise maxmemory"), "{text}");
    ensure!(!text.contains("can be taken"), "{text}");
    Ok(())
}

/// No right helps where a command is missing.
#[test]
fn a_server_that_lacks_commands_is_not_mended_by_rights() -> Result<()> {
    let mut server = RedisServer::builder();
    for command in ["INFO", "CLIENT", "ACL", "CONFIG", "SCAN"] {
        server = server.config(&format!("rename-command {command} \"\""));
    }
    let found = mends(&server.start()?.url())?;
    let subjects: Vec<&str> = found.iter().map(|(about, _)| about.as_str()).collect();
    ensure!(subjects == ["durability", "signals"], "{found:?}");
    ensure!(found.iter().all(|(_, mend)| mend.contains("URL of the server itself")), "{found:?}");
    Ok(())
}
