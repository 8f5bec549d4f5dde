//! Examines Redis and Valkey.

use syncguard::authoring::backend_url::BackendUrl;
use syncguard::contract::{SignalStatus, WatchRequest};
use syncguard::redis::{DurabilityRisk, KeyLayout, RedisBackend, WaitReplicas};
use syncguard::{DynBackend, Key, LockBackend as _};

use super::finding::Finding;
use super::probe::KEY;
use super::report::Examination;
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let parsed = BackendUrl::parse(url)?;
    let wait = parsed.number::<u8>("wait_replicas", 1..=u8::MAX)?.map(WaitReplicas::new);
    let backend = RedisBackend::connect(url).await?;
    // The report knows the state of signals only after a watch.
    let _watch = backend.watch(WatchRequest::new(Key::new(KEY)?)).await;
    let report = backend.durability_report().await?;
    let mut findings: Vec<Finding> = report.risks(wait).iter().map(finding).collect();
    if findings.is_empty() {
        findings
            .push(Finding::green("durability", "locks and fences survive a crash of the server"));
    }
    // A user without the right to SCAN gets no answer here.
    if backend.has_other_records().await.is_ok_and(|others| others) {
        let says = "the database has records of other programs: their FLUSHDB, or a FLUSHALL, deletes held locks and \
                    fences, and fences start anew";
        let mend = "use another database (redis://HOST/1) or server for locks, and forbid the others these commands: \
                    ACL SETUSER name -flushdb -flushall -swapdb";
        findings.push(Finding::yellow("database", says, mend));
    }
    if parsed.scheme().ends_with("-cluster") {
        findings.push(Finding::green("layout", layout(report.layout)));
    }
    if report.signals == SignalStatus::Failing {
        let says = "waiters get no signals of releases, and poll instead";
        findings.push(Finding::yellow(
            "signals",
            says,
            "ACL SETUSER name +client|tracking +@pubsub",
        ));
    }
    Ok(Examination { backend: DynBackend::new(backend), findings, round_trips: (1, 1) })
}

fn layout(layout: KeyLayout) -> String {
    match layout {
        KeyLayout::Sharded { shards } => {
            format!(
                "the key prefix has no hash tag: its locks are in {shards} shards, spread over all masters"
            )
        }
        _ => "the key prefix has a hash tag: all its locks are on the one master of that tag"
            .to_owned(),
    }
}

fn finding(risk: &DurabilityRisk) -> Finding {
    // The library formats a risk as "problem: remedy".
    let text = risk.to_string();
    let (says, todo) = text.split_once(": ").unwrap_or((&text, ""));
    let (about, mend) = match risk {
        DurabilityRisk::NotPersistent => (
            "persistence",
            "redis-cli CONFIG SET appendonly yes && redis-cli CONFIG SET appendfsync everysec && redis-cli CONFIG REWRITE",
        ),
        DurabilityRisk::NotSynced => {
            ("persistence", "redis-cli CONFIG SET appendfsync everysec && redis-cli CONFIG REWRITE")
        }
        DurabilityRisk::Evicts(_) => (
            "eviction",
            "redis-cli CONFIG SET maxmemory-policy noeviction && redis-cli CONFIG REWRITE",
        ),
        DurabilityRisk::IsReplica => ("role", "use the URL of the master, or redis-sentinel://"),
        DurabilityRisk::FailoverLosesWrites => {
            return Finding::yellow("replication", says, "add wait_replicas=1 to the URL");
        }
        DurabilityRisk::TooFewReplicas => {
            ("replication", "connect the replicas, or lower wait_replicas in the URL")
        }
        DurabilityRisk::Unverified => {
            return Finding::yellow("durability", says, "ACL SETUSER name +info +config|get");
        }
        _ => ("durability", todo),
    };
    Finding::red(about, says, mend)
}
