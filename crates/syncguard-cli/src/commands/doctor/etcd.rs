//! Examines etcd.

use syncguard::authoring::ClockDrift;
use syncguard::authoring::backend_url::BackendUrl;
use syncguard::contract::TIME_TOLERANCE;
use syncguard::etcd::{ClusterReport, EtcdBackend, EtcdOptions, MemberReport};
use syncguard::{DynBackend, ErrorCode};

use super::clock;
use super::examination::Examination;
use super::finding::Finding;
use crate::commands::listing;
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let backend = EtcdBackend::connect(url).await?;
    let mut findings = match backend.report().await {
        Ok(report) => findings(&report),
        // A user may be allowed to lock and not to ask.
        Err(error) if error.code() == ErrorCode::AuthFailed => {
            let says = format!("the state of the cluster cannot be examined: {}", error.message());
            vec![Finding::yellow("cluster", says, access(url))]
        }
        Err(error) => return Err(error.into()),
    };
    let backend = DynBackend::new(backend);
    findings.extend(records(&backend).await);
    Ok(Examination { backend, findings, round_trips: (1, 1), access: Some(access(url)) })
}

/// The role that gives a user the rights that locks need.
fn access(url: &str) -> String {
    let prefix = BackendUrl::parse(url).ok().and_then(|url| {
        let (_, rest) = url.base().split_once("://")?;
        let (_, path) = rest.split_once('/')?;
        (!path.is_empty()).then(|| path.to_owned())
    });
    let prefix = prefix.unwrap_or_else(|| EtcdOptions::DEFAULT_KEY_PREFIX.to_owned());
    format!("etcdctl role grant-permission ROLE --prefix=true readwrite {prefix}/")
}

fn findings(report: &ClusterReport) -> Vec<Finding> {
    let certain = [version(report), members(report), history(report), time(report)];
    certain.into_iter().chain(quota(report)).chain(wrong_clocks(report)).collect()
}

/// Records of locks and of counters that cannot be read. If nothing can be listed, the access says so.
async fn records(backend: &DynBackend) -> Option<Finding> {
    let mut corrupt = listing::read(backend, "").await.ok()?.corrupt;
    corrupt.extend(listing::counters(backend, |_| {}).await.ok()?);
    let first = corrupt.first()?;
    let says = format!(
        "{} records cannot be read, or are too large; the first has the hash {first}",
        corrupt.len()
    );
    Some(Finding::yellow(
        "records",
        says,
        "find out what else writes below the prefix, and delete its records",
    ))
}

fn version(report: &ClusterReport) -> Finding {
    let says = format!("etcd {}", report.version);
    let mut parts = report.version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match version {
        (..=3, ..4) => Finding::red(
            "version",
            format!("{says} lacks what locks need"),
            "upgrade to 3.5 or later",
        ),
        (3, 4) => {
            let says = format!("{says} is no longer maintained");
            Finding::yellow("version", says, "upgrade to 3.5 or later")
        }
        _ => Finding::green("version", says),
    }
}

fn members(report: &ClusterReport) -> Finding {
    let about = "members";
    if report.is_learner {
        let says = "the member that answered is a learner, which serves no locks";
        return Finding::red(about, says, "name the voting members in the URL");
    }
    if report.is_corrupt {
        let says = "a member has found its data corrupt";
        return Finding::red(about, says, "etcdctl alarm list, and replace that member");
    }
    if !report.has_leader {
        let says = "the member that answered knows no leader";
        return Finding::red(about, says, "etcdctl endpoint status --cluster");
    }
    let learners = match report.learners {
        0 => String::new(),
        learners => format!(", and {learners} that only learn"),
    };
    let says = format!("{} voting members{learners}", report.voters);
    match report.voters {
        1 => {
            let says = "the cluster has one member: locks and fences are lost with its disk";
            Finding::yellow(about, says, "run three members")
        }
        voters if voters % 2 == 0 => Finding::yellow(
            about,
            format!("{says}: an even number helps nobody"),
            "run three or five",
        ),
        _ => Finding::green(about, says),
    }
}

const MEGABYTE: u64 = 1 << 20;
const MEND: &str = "etcdctl compact REVISION && etcdctl defrag --cluster && etcdctl alarm disarm";

fn quota(report: &ClusterReport) -> Option<Finding> {
    let size = report.database_bytes / MEGABYTE;
    if report.is_full {
        let says = format!("the database is full, with {size} MB, and refuses writes");
        return Some(Finding::red("quota", says, MEND));
    }
    // Nothing is told of a quota of 0, which is the default of 2 GB.
    let quota = report.quota_bytes.filter(|quota| *quota > 0)?;
    Some(filling(report.database_bytes, quota))
}

fn filling(bytes: u64, quota: u64) -> Finding {
    let says = format!("the database has {} of {} MB", bytes / MEGABYTE, quota / MEGABYTE);
    if bytes >= quota / 10 * 8 {
        Finding::yellow("quota", says, MEND)
    } else {
        Finding::green("quota", says)
    }
}

/// After so many writes, automatic compaction would have run.
const MANY_WRITES: u64 = 100_000;

fn history(report: &ClusterReport) -> Finding {
    if !report.was_never_compacted {
        return Finding::green("history", "the history is compacted");
    }
    let says = format!(
        "the history was never compacted in {} writes, and grows until the quota is used up",
        report.revision
    );
    let mend =
        "start the members with --auto-compaction-mode=periodic --auto-compaction-retention=1h";
    if report.revision < MANY_WRITES {
        Finding::yellow("history", says, mend)
    } else {
        Finding::red("history", says, mend)
    }
}

fn time(report: &ClusterReport) -> Finding {
    let unknown = || {
        let says = "fewer than half of the members tell their time, so locks go by this machine's clock, and a strict \
                    backend takes none";
        Finding::yellow("clock", says, "let this machine reach the members of the URL over HTTP")
    };
    report.clock_drift.map_or_else(unknown, |drift| clock::finding(drift, "etcd"))
}

/// A clock that is further off than the tolerance is outvoted by a majority of right ones.
fn wrong_clocks(report: &ClusterReport) -> Vec<Finding> {
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
        Finding::yellow("clock of a member", says, "set the clock of that member")
    };
    wrong.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_database_is_yellow_from_four_fifths_of_its_quota() {
        for (megabytes, level) in [(1599, Level::Green), (1600, Level::Yellow)] {
            assert_eq!(filling(megabytes * MEGABYTE, 2000 * MEGABYTE).level, level, "{megabytes}");
        }
    }
}
