//! Examines Redis and Valkey.

mod typed;

use syncguard::authoring::backend_url::BackendUrl;
use syncguard::contract::{SignalStatus, WatchRequest};
use syncguard::redis::{
    AppendSync, DurabilityRisk, KeyLayout, Persistence, RedisBackend, WaitReplicas,
};
use syncguard::{DynBackend, ErrorCode, Key, LockBackend as _};

use self::typed::Typed;
use super::examination::Examination;
use super::finding::Finding;
use super::probe::KEY;
use crate::exit::Failure;

/// The mend for what a proxy or an emulation lacks.
const ITSELF: &str =
    "run syncguard doctor with the URL of the server itself, if a proxy is before it";

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let parsed = BackendUrl::parse(url)?;
    let wait = parsed.number::<u8>("wait_replicas", 1..=u8::MAX)?.map(WaitReplicas::new);
    let typed = Typed::for_store(&parsed)?;
    let backend = RedisBackend::connect(url).await?;
    // The report knows the state of signals only after a watch.
    let _watch = backend.watch(WatchRequest::new(Key::new(KEY)?)).await;
    let report = backend.durability_report().await?;
    let mut risks = report.risks(wait);
    // Another server will have the locks, so the settings of this one do not matter.
    if risks.contains(&DurabilityRisk::IsReplica) {
        risks = vec![DurabilityRisk::IsReplica];
    }
    let mut findings: Vec<Finding> = risks.iter().map(|risk| finding(risk, &typed)).collect();
    // No right is proposed: CONFIG GET shows the server's passwords, too.
    if report.persistence == Persistence::AppendOnly(AppendSync::Unverified) {
        let says = "unverified, this user does not see how often the append-only file is written to the disk (appendfsync): \
                    once a second, unless somebody changed it";
        let mend = "run syncguard doctor once with the URL of an administrator";
        findings.push(Finding::yellow("durability", says, mend));
    }
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
        findings.push(match backend.signal_failure() {
            // No rule helps where the command is missing.
            Some(failure) if failure.code() != ErrorCode::AuthFailed => {
                Finding::yellow("signals", format!("{says}: {}", failure.message()), ITSELF)
            }
            _ => Finding::yellow("signals", says, typed.allow_signals()),
        });
    }
    let access = Some(typed.allow_locks());
    Ok(Examination { backend: DynBackend::new(backend), findings, round_trips: (1, 1), access })
}

/// The rights that locks need, for a user that may not even connect.
pub(super) fn access(url: &str) -> Option<String> {
    Some(Typed::for_store(&BackendUrl::parse(url).ok()?).ok()?.allow_locks())
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

fn finding(risk: &DurabilityRisk, typed: &Typed) -> Finding {
    // The library formats a risk as "problem: remedy".
    let text = risk.to_string();
    let (says, todo) = text.split_once(": ").unwrap_or((&text, ""));
    let (about, mend) = match risk {
        DurabilityRisk::NotPersistent => {
            ("persistence", typed.set(&["appendonly yes", "appendfsync everysec"]))
        }
        DurabilityRisk::NotSynced => ("persistence", typed.set(&["appendfsync everysec"])),
        DurabilityRisk::Evicts(_) => ("eviction", typed.set(&["maxmemory-policy noeviction"])),
        DurabilityRisk::IsReplica => {
            ("role", "use the URL of the master, or redis-sentinel://".to_owned())
        }
        DurabilityRisk::FailoverLosesWrites => {
            return Finding::yellow("replication", says, "add wait_replicas=1 to the URL");
        }
        DurabilityRisk::TooFewReplicas => {
            ("replication", "connect the replicas, or lower wait_replicas in the URL".to_owned())
        }
        DurabilityRisk::Unverified => {
            return Finding::yellow("durability", says, typed.allow(&["+info"]));
        }
        DurabilityRisk::Untold => return Finding::yellow("durability", says, ITSELF),
        _ => ("durability", todo.to_owned()),
    };
    Finding::red(about, says, mend)
}
