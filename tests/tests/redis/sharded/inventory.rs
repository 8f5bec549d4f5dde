//! The inventory of all shards.

use anyhow::Result;
use syncguard_redis::Fence;
use syncguard_redis::inventory::ListRequest;
use syncguard_test_services::redis::RedisCluster;
use syncguard_tests::inventory::{inventory, locks};
use tokio::task::block_in_place;

use super::{PREFIX, connect};
use crate::redis::support::take;

/// In the order of the keys, also after a shard has moved.
#[tokio::test(flavor = "multi_thread")]
async fn locks_and_counters_of_all_shards_are_listed() -> Result<()> {
    const COUNT: usize = 300;
    let cluster = RedisCluster::start(3)?;
    let (backend, other) = (connect(&cluster).await?, connect(&cluster).await?);
    for number in 0..COUNT {
        let _ = take(&backend, &format!("job:{number:06}"), 3_600_000).await;
    }
    // Records that no lookup would find, and records of another prefix, are no locks.
    let node = cluster.owner_and_other("{app:63}")?.0;
    let record = node.cli(&["KEYS", "*:job:000*"])?;
    let record = node.cli(&["GET", record.lines().next().unwrap_or_default()])?;
    for name in ["{app:63}:elsewhere", "{app:63}x:job", "{app:6}:job"] {
        let _ = node.cli(&["SET", name, &record]);
    }
    let (owner, to, slot) = cluster.owner_and_other(&format!("{{{PREFIX}:00}}"))?;
    for moves in [false, true] {
        if moves {
            block_in_place(|| cluster.move_slot(slot.parse()?, owner, to))?;
        }
        let request = ListRequest::new().with_prefix("job:0001").with_page_size(30);
        let (keys, corrupt) = locks(&other, request).await?;
        let expected: Vec<String> = (100..200).map(|number| format!("job:{number:06}")).collect();
        assert_eq!((keys, corrupt), (expected, 0));
        let elsewhere = ListRequest::new().with_prefix("elsewhere");
        assert!(locks(&other, elsewhere).await?.0.is_empty());
        let counters = ListRequest::new().with_page_size(1000);
        let counters = inventory(&other).list_counters(counters).await?;
        assert_eq!((counters.entries.len(), counters.corrupt.len()), (COUNT, 0));
        for number in [0, 50, 99] {
            let key = format!("job:{number:06}");
            let raised = inventory(&other).raise_counter(&*key, Fence::new(7)?).await?;
            assert_eq!(inventory(&backend).fence_counter(&*key).await?, Some(raised));
        }
    }
    Ok(())
}
