//! etcd, member by member.

use std::time::Duration;

use anyhow::Result;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::fetch::programs;

use super::load::Load;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_after_the_other_is_replaced_twice() -> Result<()> {
    let mut cluster = EtcdCluster::builder()
        .flag("--snapshot-count=100")
        .programs(programs("etcd=3.5.34")?)
        .start(3)?;
    let load = Load::start(&cluster.url()).await?;
    for (release, version) in [("etcd=3.6.15", "3.6"), ("etcd=3.7.2", "3.7")] {
        // The leader comes last.
        let leader = cluster.leader()?;
        for member in (0..3).filter(|member| *member != leader).chain([leader]) {
            cluster.upgrade(member, programs(release)?)?;
            load.goes_on().await;
        }
        cluster.wait_for_version(version)?;
    }
    load.end(Duration::from_secs(30)).await
}
