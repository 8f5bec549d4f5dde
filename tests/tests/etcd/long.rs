//! The troubles that a lock of the default TTL outlives.

use std::time::Duration;

use anyhow::Result;
use syncguard_etcd::{EtcdBackend, EtcdOptions};
use syncguard_test_services::etcd::EtcdCluster;

use crate::troubles::long::outlives;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_thirty_seconds_outlives_troubles_of_the_cluster() -> Result<()> {
    let mut cluster = EtcdCluster::start(3)?;
    let ours = EtcdBackend::connect_with(&cluster.url(), EtcdOptions::new()).await?;
    outlives(&ours, "the leader dies", async || cluster.kill(cluster.leader()?)).await?;
    for member in (0..3).filter(|member| !cluster.is_awake(*member)).collect::<Vec<_>>() {
        cluster.restart(member)?;
    }
    outlives(&ours, "no quorum for 12 s", async || {
        cluster.pause(0)?;
        cluster.pause(1)?;
        tokio::time::sleep(Duration::from_secs(12)).await;
        cluster.resume(0)?;
        cluster.resume(1)
    })
    .await
}
