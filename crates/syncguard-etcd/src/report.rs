//! The report of the cluster on itself, for health checks.

use std::sync::Arc;

use syncguard_core::LockError;
use syncguard_core::authoring::conditional::Conditional;
use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::diagnostics::ClockDrift;

use tokio::task::JoinSet;

use crate::clock_probe::narrow;
use crate::error::Rpc;
use crate::store::Etcd;
use crate::txn;
use crate::wire::{AlarmResponse, MemberListResponse, RangeRequest, StatusResponse};

/// The state of a cluster: the answer of [`EtcdBackend::report`](crate::EtcdBackend::report).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a report of findings")]
#[non_exhaustive]
pub struct ClusterReport {
    /// The version of the member that answered, such as `3.5.21`.
    pub version: String,
    /// How many members vote.
    pub voters: usize,
    /// How many members only learn.
    pub learners: usize,
    /// The member that answered only learns: it serves no locks.
    pub is_learner: bool,
    /// The cluster has a leader.
    pub has_leader: bool,
    /// The size of the database, in bytes.
    pub database_bytes: u64,
    /// The quota of the database in bytes, if the member's metrics can be read.
    pub quota_bytes: Option<u64>,
    /// The database has reached its quota, and the cluster refuses writes until an operator ends the alarm.
    pub is_full: bool,
    /// A member has found its data corrupt.
    pub is_corrupt: bool,
    /// The revision of the store: how many writes it has seen.
    pub revision: u64,
    /// The cluster has never compacted its history, which grows with every write.
    pub was_never_compacted: bool,
    /// How far this machine's clock is off that of a majority of the members, if they tell their time.
    pub clock_drift: Option<ClockDrift>,
    /// The answers of the members of the URL over HTTP, in the order of the URL.
    pub told: Vec<MemberReport>,
}

/// The answer of a member of the URL over HTTP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberReport {
    /// Host and port.
    pub member: String,
    /// The id of its cluster, if it tells it.
    pub cluster: Option<u64>,
    /// How far its clock is ahead of that of a majority, if both are told.
    pub clock: Option<ClockDrift>,
}

/// Asks the current member, and each one for its time. Measuring the clocks takes some seconds.
pub(crate) async fn report(backend: &Conditional<Etcd>) -> Result<ClusterReport, LockError> {
    let etcd = backend.store();
    let (probe, members) = (&etcd.probe, &etcd.client.members);
    let mut measuring = JoinSet::new();
    for member in 0..members.count() {
        measuring.spawn(narrow(Arc::downgrade(probe), member));
    }
    let asking = backend.attempts().run(|attempt| once(etcd, attempt));
    let (report, _) = tokio::try_join!(asking, async { Ok(measuring.join_all().await) })?;
    members.check()?;
    let clusters = members.clusters().0.clone();
    let told = clusters.into_iter().enumerate().map(|(member, cluster)| MemberReport {
        member: members.name(member),
        cluster,
        clock: probe.clock.drift_of(member),
    });
    Ok(ClusterReport { clock_drift: probe.clock.drift(), told: told.collect(), ..report })
}

async fn once(etcd: &Etcd, attempt: Attempt) -> Result<ClusterReport, Fault> {
    let deadline = attempt.call_deadline();
    let client = &etcd.client;
    let status: StatusResponse = client.ask("/etcdserverpb.Maintenance/Status", deadline).await?;
    let members: MemberListResponse =
        client.ask("/etcdserverpb.Cluster/MemberList", deadline).await?;
    let alarms: AlarmResponse = client.ask("/etcdserverpb.Maintenance/Alarm", deadline).await?;
    let name = etcd.layout.lock("");
    let now = etcd.txn(Rpc::Read, &txn::read(&[&name]), &attempt).await?;
    // The first revision can be read until the first compaction.
    let first = RangeRequest { key: name.into(), revision: 1, ..RangeRequest::default() };
    let first = etcd.txn(Rpc::Read, &txn::read_range(first), &attempt).await;
    let metrics = tokio::time::timeout_at(deadline, client.members.get("GET /metrics")).await;
    let learners = members.members.iter().filter(|member| member.is_learner).count();
    let has = |kind| alarms.alarms.iter().any(|alarm| alarm.alarm == kind);
    Ok(ClusterReport {
        version: status.version,
        voters: members.members.len() - learners,
        learners,
        is_learner: status.is_learner,
        has_leader: status.leader != 0,
        database_bytes: unsigned(status.db_size),
        quota_bytes: metrics.ok().flatten().as_deref().and_then(quota),
        is_full: has(1),
        is_corrupt: has(2),
        revision: unsigned(txn::revision(&now)?),
        was_never_compacted: first.is_ok(),
        clock_drift: None,
        told: Vec::new(),
    })
}

/// The quota among the metrics, which write it as `etcd_server_quota_backend_bytes 2.147483648e+09`.
fn quota(metrics: &str) -> Option<u64> {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix("etcd_server_quota_backend_bytes "))?;
    let bytes: f64 = value.trim().parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of bytes, and a wrong one only misleads a person"
    )]
    let bytes = bytes.max(0.0) as u64;
    Some(bytes)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_is_found_among_the_metrics() {
        let metrics = "# HELP etcd_server_quota_backend_bytes x\netcd_server_quota_backend_bytes 2.147483648e+09\n";
        assert_eq!(quota(metrics), Some(2 << 30));
        assert_eq!(quota("etcd_server_quota_backend_bytes many"), None);
        assert_eq!(quota(""), None);
    }
}
