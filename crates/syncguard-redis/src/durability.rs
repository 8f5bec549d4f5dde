//! The durability report: how safe locks are on a server.

use std::collections::HashMap;
use std::fmt;

use fred::types::Value;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use syncguard_core::{ErrorCode, LockError};

use crate::client::Connections;
use crate::config::WaitReplicas;
use crate::driver::Target;
use crate::layout::{KeyLayout, Layout};
use crate::servers::one_section_each;

/// The server's own account of how safely it keeps locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DurabilityReport {
    /// Which of the newest writes survive a crash.
    pub(crate) persistence: Persistence,
    /// The server's behavior when its memory is full.
    pub(crate) eviction: Eviction,
    /// The server's role: master or replica.
    pub(crate) role: ServerRole,
    /// How the locks spread over the servers.
    pub(crate) layout: KeyLayout,
    /// The server's access rules deny `INFO`. If they do not, what is `Unverified` is what the server, or a proxy before it,
    /// does not tell anybody.
    pub(crate) is_info_denied: bool,
}

/// The writes that survive a crash of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// The append-only file: nothing is lost when the process dies.
    AppendOnly(AppendSync),
    /// Snapshots at most: a crash loses the newest locks and fences.
    SnapshotsOrNothing,
    /// The server does not say.
    Unverified,
}

/// The writes that survive a loss of power, with the append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendSync {
    /// `appendfsync always`: everything.
    Always,
    /// `appendfsync everysec`: all but the last second. While the disk is slow, Redis delays its writes for up to two
    /// seconds, and loses them if it is killed then.
    EverySecond,
    /// `appendfsync no`: whatever the operating system has written.
    Never,
    /// The server denies `CONFIG GET`, as the access rules want it. It is `everysec` unless the
    /// server's administrator has set something else.
    Unverified,
}

impl Persistence {
    fn safety(self) -> u8 {
        match self {
            Self::SnapshotsOrNothing => 0,
            Self::AppendOnly(AppendSync::Never) => 1,
            Self::Unverified => 2,
            Self::AppendOnly(AppendSync::Unverified) => 3,
            Self::AppendOnly(AppendSync::EverySecond) => 4,
            Self::AppendOnly(AppendSync::Always) => 5,
        }
    }
}

/// The server's behavior when its memory is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The server evicts no record: it has no memory limit, or its policy is `noeviction`.
    Never,
    /// This policy may drop held locks, and if its name begins with `allkeys-`, fence counters too.
    Policy(String),
    /// The server does not say.
    Unverified,
}

impl Eviction {
    fn safety(&self) -> u8 {
        match self {
            Self::Policy(_) => 0,
            Self::Unverified => 1,
            Self::Never => 2,
        }
    }
}

/// The role of a server in replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerRole {
    /// A master with this many connected replicas.
    Master {
        /// How many replicas are connected.
        replicas: u32,
    },
    /// A replica, which cannot grant locks.
    Replica,
    /// The server does not say.
    Unverified,
}

impl ServerRole {
    /// The master with the fewest replicas counts.
    fn safety(self) -> u64 {
        match self {
            Self::Replica => 0,
            Self::Unverified => 1,
            Self::Master { replicas } => 2 + u64::from(replicas),
        }
    }
}

/// A risk for locks or fences. `Display` says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DurabilityRisk {
    /// A crash takes locks and fences back.
    NotPersistent,
    /// A loss of power takes locks and fences back.
    NotSynced,
    /// Held locks may be evicted, under this policy.
    Evicts(String),
    /// The server is a replica.
    IsReplica,
    /// A failover takes back locks and fences that the new master did not get.
    FailoverLosesWrites,
    /// Fewer replicas are connected than an acquire waits for, so no acquire can succeed.
    TooFewReplicas,
    /// The server's access rules deny `INFO`, so it may or may not be safe.
    Unverified,
    /// The server, or a proxy before it, does not say in `INFO` what matters for locks, or does not know `INFO`.
    Untold,
}

impl DurabilityReport {
    /// The risks for a backend that waits for these replicas. Empty if locks are safe.
    ///
    /// [`AppendSync::Unverified`] is no risk of its own: it counts as `everysec`, which is Redis' default.
    pub(crate) fn risks(&self, wait_replicas: Option<WaitReplicas>) -> Vec<DurabilityRisk> {
        let mut risks = Vec::new();
        let unverified =
            if self.is_info_denied { DurabilityRisk::Unverified } else { DurabilityRisk::Untold };
        match self.persistence {
            Persistence::AppendOnly(
                AppendSync::Always | AppendSync::EverySecond | AppendSync::Unverified,
            ) => {}
            Persistence::AppendOnly(AppendSync::Never) => risks.push(DurabilityRisk::NotSynced),
            Persistence::SnapshotsOrNothing => risks.push(DurabilityRisk::NotPersistent),
            Persistence::Unverified => risks.push(unverified.clone()),
        }
        match &self.eviction {
            Eviction::Never => {}
            Eviction::Policy(policy) => risks.push(DurabilityRisk::Evicts(policy.clone())),
            Eviction::Unverified => risks.push(unverified.clone()),
        }
        match (self.role, wait_replicas) {
            (ServerRole::Master { replicas }, Some(wait)) if replicas < u32::from(wait.count) => {
                risks.push(DurabilityRisk::TooFewReplicas);
            }
            (ServerRole::Master { replicas: 1.. }, None) => {
                risks.push(DurabilityRisk::FailoverLosesWrites);
            }
            (ServerRole::Master { .. }, _) => {}
            (ServerRole::Replica, _) => risks.push(DurabilityRisk::IsReplica),
            (ServerRole::Unverified, _) => risks.push(unverified.clone()),
        }
        risks.dedup();
        risks
    }
}

impl fmt::Display for DurabilityRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPersistent => {
                "a crash takes locks and fences back: set `appendonly yes` and `appendfsync everysec`"
            }
            Self::NotSynced => {
                "a loss of power takes locks and fences back: set `appendfsync everysec` or `always`"
            }
            Self::Evicts(policy) => {
                return write!(
                    f,
                    "a full memory drops held locks ({policy}): set `maxmemory-policy noeviction`"
                );
            }
            Self::IsReplica => "the server is a replica: connect to the master",
            Self::FailoverLosesWrites => {
                "a failover takes back locks and fences the replica did not get: set `with_wait_replicas`"
            }
            Self::TooFewReplicas => {
                "fewer replicas are connected than an acquire waits for: connect them or wait for fewer"
            }
            Self::Unverified => {
                "unverified, the server does not say how it persists, evicts or replicates: allow INFO"
            }
            Self::Untold => {
                "unverified, the server, or a proxy before it, does not tell how it persists, evicts or replicates: ask the \
                 server itself"
            }
        })
    }
}

impl DurabilityReport {
    /// The worse of two servers, point by point.
    fn worse_of(self, other: Self) -> Self {
        let persistence = self.persistence.safety() <= other.persistence.safety();
        let eviction = self.eviction.safety() <= other.eviction.safety();
        let role = self.role.safety() <= other.role.safety();
        Self {
            persistence: if persistence { self.persistence } else { other.persistence },
            eviction: if eviction { self.eviction } else { other.eviction },
            role: if role { self.role } else { other.role },
            layout: self.layout,
            is_info_denied: self.is_info_denied || other.is_info_denied,
        }
    }

    pub(crate) fn log(&self, wait: Option<WaitReplicas>) {
        match self.risk_text(wait) {
            None => tracing::info!(report = ?self, "locks on this Redis server survive a crash"),
            Some(risks) => {
                tracing::warn!(report = ?self, "locks on this Redis server are at risk: {risks}");
            }
        }
    }

    /// # Errors
    ///
    /// `InvalidArgument` if locks are at risk.
    pub(crate) fn enforce(&self, wait: Option<WaitReplicas>) -> Result<(), LockError> {
        self.risk_text(wait).map_or(Ok(()), |risks| {
            Err(LockError::invalid_argument(format!(
                "strict durability refuses this server: {risks}"
            )))
        })
    }

    fn risk_text(&self, wait: Option<WaitReplicas>) -> Option<String> {
        let risks: Vec<String> = self.risks(wait).iter().map(ToString::to_string).collect();
        (!risks.is_empty()).then(|| risks.join("; "))
    }
}

/// Asks all servers that have locks. If a server refuses an answer, that point is `Unverified`.
pub(crate) async fn report(
    connections: &Connections,
    layout: &Layout,
) -> Result<DurabilityReport, LockError> {
    let servers = one_section_each(connections, layout).into_iter();
    let mut asking: FuturesUnordered<_> =
        servers.map(|target| report_of_server(connections, target)).collect();
    let mut merged: Option<DurabilityReport> = None;
    while let Some(report) = asking.next().await {
        let report = report?;
        merged = Some(match merged {
            Some(other) => other.worse_of(report),
            None => report,
        });
    }
    let merged = merged.unwrap_or_else(|| from_info(None, AppendSync::Unverified, false));
    Ok(DurabilityReport { layout: layout.kind(), ..merged })
}

async fn report_of_server(
    connections: &Connections,
    target: Target,
) -> Result<DurabilityReport, LockError> {
    let info = connections.command(target, "INFO", &[]).await;
    let is_denied = info.as_ref().is_err_and(|error| error.code() == ErrorCode::AuthFailed);
    let info = unless_denied(info)?;
    let sync = unless_denied(connections.command(target, "CONFIG", &["GET", "appendfsync"]).await)?;
    let info = info.as_ref().and_then(Value::as_str);
    Ok(from_info(info.as_deref(), append_sync(sync), is_denied))
}

/// Refuses a server that says that it is a node of a cluster.
///
/// # Errors
///
/// `InvalidArgument` for a node of a cluster, and the store's failures.
pub(crate) async fn refuse_cluster_node(connections: &Connections) -> Result<(), LockError> {
    let info = unless_denied(connections.command(Target::default(), "INFO", &["cluster"]).await)?;
    let info = info.as_ref().and_then(Value::as_str);
    if info.is_some_and(|info| info.lines().any(|line| line.trim() == "cluster_enabled:1")) {
        return Err(LockError::invalid_argument(
            "the server is a node of a cluster, whose clients have the locks of this key prefix in 64 \
             shards; use redis-cluster:// or a cluster client. If it is a proxy that only says so, such as Envoy, use a \
             key prefix with a hash tag",
        ));
    }
    Ok(())
}

/// The answer, or `None` if the server denies the command.
fn unless_denied(answer: Result<Value, LockError>) -> Result<Option<Value>, LockError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        // `InvalidArgument`: some managed servers do not know CONFIG at all.
        Err(error)
            if matches!(
                error.code(),
                ErrorCode::AuthFailed | ErrorCode::InvalidArgument | ErrorCode::Internal
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads the answer to `CONFIG GET`: a list of names and values, in RESP3 a map.
fn append_sync(answer: Option<Value>) -> AppendSync {
    let settings = answer.and_then(|answer| answer.convert::<HashMap<String, String>>().ok());
    match settings.as_ref().and_then(|settings| settings.get("appendfsync")).map(String::as_str) {
        Some("always") => AppendSync::Always,
        Some("everysec") => AppendSync::EverySecond,
        Some("no") => AppendSync::Never,
        _ => AppendSync::Unverified,
    }
}

fn from_info(info: Option<&str>, sync: AppendSync, is_info_denied: bool) -> DurabilityReport {
    let field = |name: &str| {
        info?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    DurabilityReport {
        persistence: match field("aof_enabled") {
            Some("1") => Persistence::AppendOnly(sync),
            Some(_) => Persistence::SnapshotsOrNothing,
            None => Persistence::Unverified,
        },
        eviction: match (field("maxmemory"), field("maxmemory_policy")) {
            (Some("0"), _) | (_, Some("noeviction")) => Eviction::Never,
            (_, Some(policy)) => Eviction::Policy(policy.to_owned()),
            (_, None) => Eviction::Unverified,
        },
        role: match (field("role"), field("connected_slaves")) {
            (Some("master"), replicas) => ServerRole::Master {
                replicas: replicas.and_then(|count| count.parse().ok()).unwrap_or(0),
            },
            (Some(_), _) => ServerRole::Replica,
            (None, _) => ServerRole::Unverified,
        },
        layout: KeyLayout::OneServer,
        is_info_denied,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SAFE: &str = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n\
                        # Persistence\r\naof_enabled:1\r\n\
                        # Replication\r\nrole:master\r\nconnected_slaves:0\r\n";

    fn waiting(count: u8) -> WaitReplicas {
        WaitReplicas { count, timeout: Duration::from_millis(500) }
    }

    fn risks(info: &str, sync: AppendSync, wait: Option<u8>) -> Vec<DurabilityRisk> {
        from_info(Some(info), sync, false).risks(wait.map(waiting))
    }

    #[test]
    fn each_danger_is_named() {
        use DurabilityRisk as R;
        let sync = AppendSync::EverySecond;
        assert_eq!(risks(SAFE, sync, None), []);
        assert_eq!(risks(SAFE, AppendSync::Never, None), [R::NotSynced]);
        assert_eq!(risks(SAFE, AppendSync::Unverified, None), []);
        let with = |from: &str, to: &str| SAFE.replace(from, to);
        assert_eq!(risks(&with("aof_enabled:1", "aof_enabled:0"), sync, None), [R::NotPersistent]);
        let limited = with("maxmemory:0", "maxmemory:9");
        assert_eq!(risks(&limited, sync, None), [R::Evicts("allkeys-lru".to_owned())]);
        assert_eq!(risks(&limited.replace("allkeys-lru", "noeviction"), sync, None), []);
        assert_eq!(risks(&with("master", "slave"), sync, None), [R::IsReplica]);
        let replicated = with("slaves:0", "slaves:1");
        assert_eq!(risks(&replicated, sync, None), [R::FailoverLosesWrites]);
        assert_eq!(risks(&replicated, sync, Some(1)), []);
        assert_eq!(risks(&replicated, sync, Some(2)), [R::TooFewReplicas]);
    }

    #[test]
    fn the_worst_of_several_servers_counts() {
        let report = |info: &str, sync| from_info(Some(info), sync, false);
        let good = report(&SAFE.replace("slaves:0", "slaves:2"), AppendSync::Always);
        for (bad, sync, risk) in [
            (
                SAFE.replace("aof_enabled:1", "aof_enabled:0"),
                AppendSync::Always,
                DurabilityRisk::NotPersistent,
            ),
            (SAFE.to_owned(), AppendSync::Never, DurabilityRisk::NotSynced),
            (SAFE.to_owned(), AppendSync::Always, DurabilityRisk::TooFewReplicas),
            (
                SAFE.replace("maxmemory:0", "maxmemory:1"),
                AppendSync::Always,
                DurabilityRisk::Evicts("allkeys-lru".to_owned()),
            ),
            (SAFE.replace("master", "slave"), AppendSync::Always, DurabilityRisk::IsReplica),
        ] {
            let bad = report(&bad, sync);
            for merged in [good.clone().worse_of(bad.clone()), bad.worse_of(good.clone())] {
                assert!(merged.risks(Some(waiting(1))).contains(&risk), "{merged:?}");
            }
        }
        assert_eq!(good.clone().worse_of(good.clone()), good);
    }

    #[test]
    fn what_is_denied_is_unverified_and_not_fine() {
        for (is_denied, risk) in
            [(true, DurabilityRisk::Unverified), (false, DurabilityRisk::Untold)]
        {
            let report = from_info(None, AppendSync::Unverified, is_denied);
            assert_eq!(report.persistence, Persistence::Unverified);
            assert_eq!(report.eviction, Eviction::Unverified);
            assert_eq!(report.role, ServerRole::Unverified);
            assert_eq!(report.risks(None), [risk]);
        }
    }
}
