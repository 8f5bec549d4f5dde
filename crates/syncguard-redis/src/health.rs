//! The report of a server on itself, for health checks.

use syncguard_core::ErrorCode;
use syncguard_core::contract::SignalStatus;
use syncguard_core::diagnostics::{Health, HealthFinding};

use crate::durability::{AppendSync, DurabilityReport, DurabilityRisk, Persistence};
use crate::inner::Inner;
use crate::layout::KeyLayout;

/// The mend for what a proxy or an emulation lacks.
const ITSELF: &str =
    "run syncguard doctor with the URL of the server itself, if a proxy is before it";

/// Adds the findings. `has_others` says that the database has records of other programs.
pub(crate) fn describe(
    health: &mut Health,
    inner: &Inner,
    report: &DurabilityReport,
    has_others: bool,
) {
    let mut findings = of_durability(inner, report);
    if has_others {
        let says = "the database has records of other programs: their FLUSHDB, or a FLUSHALL, deletes held locks and \
                    fences, and fences start anew";
        let mend = "use another database (redis://HOST/1) or server for locks, and forbid the others these commands: \
                    ACL SETUSER name -flushdb -flushall -swapdb";
        findings.push(HealthFinding::yellow("database", says, mend));
    }
    if inner.connections.is_clustered() {
        findings.push(HealthFinding::green("layout", of_layout(report.layout)));
    }
    if health.signals == SignalStatus::Failing {
        let says = "waiters get no signals of releases, and poll instead";
        findings.push(match inner.signals.failure() {
            // No rule helps where the command is missing.
            Some(failure) if failure.code() != ErrorCode::AuthFailed => {
                HealthFinding::yellow("signals", format!("{says}: {}", failure.message()), ITSELF)
            }
            _ => HealthFinding::yellow(
                "signals",
                says,
                "ACL SETUSER USER '+client|tracking' (waiters need client|tracking or else poll; it shows the names of all \
                 keys of the server to this user)",
            ),
        });
    }
    health.findings = findings;
}

fn of_durability(inner: &Inner, report: &DurabilityReport) -> Vec<HealthFinding> {
    let mut risks = report.risks(inner.wait_replicas);
    // Another server will have the locks, so the settings of this one do not matter.
    if risks.contains(&DurabilityRisk::IsReplica) {
        risks = vec![DurabilityRisk::IsReplica];
    }
    let mut findings: Vec<HealthFinding> = risks.iter().map(of_risk).collect();
    // No right is proposed: CONFIG GET shows the server's passwords, too.
    if report.persistence == Persistence::AppendOnly(AppendSync::Unverified) {
        let says = "unverified, this user does not see how often the append-only file is written to the disk (appendfsync): \
                    once a second, unless somebody changed it";
        let mend = "run syncguard doctor once with the URL of an administrator";
        findings.push(HealthFinding::yellow("durability", says, mend));
    }
    if findings.is_empty() {
        let says = "locks and fences survive a crash of the server";
        findings.push(HealthFinding::green("durability", says));
    }
    findings
}

fn of_layout(layout: KeyLayout) -> String {
    match layout {
        KeyLayout::Sharded { shards } => format!(
            "the key prefix has no hash tag: its locks are in {shards} shards, spread over all masters"
        ),
        KeyLayout::OneServer => {
            "the key prefix has a hash tag: all its locks are on the one master of that tag"
                .to_owned()
        }
    }
}

fn of_risk(risk: &DurabilityRisk) -> HealthFinding {
    // A risk reads "problem: remedy".
    let text = risk.to_string();
    let says = text.split_once(": ").map_or(&*text, |(says, _)| says);
    let red = |about, mend| HealthFinding::red(about, says, mend);
    match risk {
        DurabilityRisk::NotPersistent => red(
            "persistence",
            "CONFIG SET appendonly yes && CONFIG SET appendfsync everysec && CONFIG REWRITE",
        ),
        DurabilityRisk::NotSynced => {
            red("persistence", "CONFIG SET appendfsync everysec && CONFIG REWRITE")
        }
        DurabilityRisk::Evicts(_) => {
            red("eviction", "CONFIG SET maxmemory-policy noeviction && CONFIG REWRITE")
        }
        DurabilityRisk::IsReplica => red("role", "use the URL of the master, or redis-sentinel://"),
        DurabilityRisk::TooFewReplicas => {
            red("replication", "connect the replicas, or lower wait_replicas in the URL")
        }
        DurabilityRisk::FailoverLosesWrites => {
            HealthFinding::yellow("replication", says, "add wait_replicas=1 to the URL")
        }
        DurabilityRisk::Unverified => {
            HealthFinding::yellow("durability", says, "ACL SETUSER USER +info")
        }
        DurabilityRisk::Untold => HealthFinding::yellow("durability", says, ITSELF),
    }
}
