//! The report of a cluster on itself, for health checks.

use syncguard_core::LockError;
use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::diagnostics::{ClockDrift, Health, HealthFinding};

use crate::report::{ClusterReport, MemberReport};

/// Adds the findings. A user may be allowed to lock and not to ask, and then there is an error for the report.
pub(crate) fn describe(health: &mut Health, report: Result<ClusterReport, LockError>) {
    match report {
        Ok(report) => of_report(&report, health),
        Err(error) => {
            let says = format!("the state of the cluster cannot be examined: {}", error.message());
            let mend = "etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX/";
            health.findings.push(HealthFinding::yellow("cluster", says, mend));
        }
    }
}

fn of_report(report: &ClusterReport, health: &mut Health) {
    health.findings.extend([version(report), members(report), history(report)]);
    if report.clock_drift.is_some() {
        health.set_clock(report.clock_drift, "etcd");
    } else {
        let says = "fewer than half of the members tell their time, so locks go by this machine's clock, and a strict \
                    backend takes none";
        let mend = "let this machine reach the members of the URL over HTTP";
        health.findings.push(HealthFinding::yellow("clock", says, mend));
    }
    health.findings.extend(quota(report));
    health.findings.extend(wrong_clocks(report));
}

fn version(report: &ClusterReport) -> HealthFinding {
    let says = format!("etcd {}", report.version);
    let mut parts = report.version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match version {
        (..=3, ..4) => HealthFinding::red(
            "version",
            format!("{says} lacks what locks need"),
            "upgrade to 3.5 or later",
        ),
        (3, 4) => {
            let says = format!("{says} is no longer maintained");
            HealthFinding::yellow("version", says, "upgrade to 3.5 or later")
        }
        _ => HealthFinding::green("version", says),
    }
}

fn members(report: &ClusterReport) -> HealthFinding {
    let about = "members";
    if report.is_learner {
        let says = "the member that answered is a learner, which serves no locks";
        return HealthFinding::red(about, says, "name the voting members in the URL");
    }
    if report.is_corrupt {
        let says = "a member has found its data corrupt";
        return HealthFinding::red(about, says, "etcdctl alarm list, and replace that member");
    }
    if !report.has_leader {
        let says = "the member that answered knows no leader";
        return HealthFinding::red(about, says, "etcdctl endpoint status --cluster");
    }
    let learners = match report.learners {
        0 => String::new(),
        learners => format!(", and {learners} that only learn"),
    };
    let says = format!("{} voting members{learners}", report.voters);
    match report.voters {
        1 => {
            let says = "the cluster has one member: locks and fences are lost with its disk";
            HealthFinding::yellow(about, says, "run three members")
        }
        voters if voters % 2 == 0 => HealthFinding::yellow(
            about,
            format!("{says}: an even number helps nobody"),
            "run three or five",
        ),
        _ => HealthFinding::green(about, says),
    }
}

const MEGABYTE: u64 = 1 << 20;
const MEND: &str = "etcdctl compact REVISION && etcdctl defrag --cluster && etcdctl alarm disarm";

fn quota(report: &ClusterReport) -> Option<HealthFinding> {
    let size = report.database_bytes / MEGABYTE;
    if report.is_full {
        let says = format!("the database is full, with {size} MB, and refuses writes");
        return Some(HealthFinding::red("quota", says, MEND));
    }
    // Nothing is told of a quota of 0, which is the default of 2 GB.
    let quota = report.quota_bytes.filter(|quota| *quota > 0)?;
    Some(filling(report.database_bytes, quota))
}

fn filling(bytes: u64, quota: u64) -> HealthFinding {
    let says = format!("the database has {} of {} MB", bytes / MEGABYTE, quota / MEGABYTE);
    if bytes >= quota / 10 * 8 {
        HealthFinding::yellow("quota", says, MEND)
    } else {
        HealthFinding::green("quota", says)
    }
}

/// After so many writes, automatic compaction would have run.
const MANY_WRITES: u64 = 100_000;

fn history(report: &ClusterReport) -> HealthFinding {
    if !report.was_never_compacted {
        return HealthFinding::green("history", "the history is compacted");
    }
    let says = format!(
        "the history was never compacted in {} writes, and grows until the quota is used up",
        report.revision
    );
    let mend =
        "start the members with --auto-compaction-mode=periodic --auto-compaction-retention=1h";
    if report.revision < MANY_WRITES {
        HealthFinding::yellow("history", says, mend)
    } else {
        HealthFinding::red("history", says, mend)
    }
}

/// A clock that is further off than the tolerance is outvoted by a majority of right ones.
fn wrong_clocks(report: &ClusterReport) -> Vec<HealthFinding> {
    let is_wrong = |off: ClockDrift| off.at_least() >= TIME_TOLERANCE;
    let wrong = report
        .told
        .iter()
        .filter_map(|told| Some((told, told.clock.filter(|off| is_wrong(*off))?)));
    let finding = |(told, off): (&MemberReport, ClockDrift)| {
        let (side, millis) =
            if off.millis() < 0 { ("behind", -off.millis()) } else { ("ahead of", off.millis()) };
        let says = format!(
            "the clock of the member {} is {millis} ms {side} that of a majority",
            told.member
        );
        HealthFinding::yellow("clock of a member", says, "set the clock of that member")
    };
    wrong.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use syncguard_core::diagnostics::HealthLevel;

    use super::*;

    #[test]
    fn a_database_is_yellow_from_four_fifths_of_its_quota() {
        for (megabytes, level) in [(1599, HealthLevel::Green), (1600, HealthLevel::Yellow)] {
            assert_eq!(filling(megabytes * MEGABYTE, 2000 * MEGABYTE).level, level, "{megabytes}");
        }
    }
}
