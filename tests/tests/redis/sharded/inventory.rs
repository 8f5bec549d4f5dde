//! The inventory of all shards.

use anyhow::Result;
use syncguard_redis::Fence;
use syncguard_redis::inventory::ListRequest;
use syncguard_test_services::redis::RedisCluster;
use syncguard_tests::inventory::{inventory, shows_each_once, take_all};
use tokio::task::block_in_place;

use super::{PREFIX, connect};

#[tokio::test(flavor = "multi_thread")]
async fn all_shards_are_listed_in_the_order_of_the_keys() -> Result<()> {
    const COUNT: usize = 3000;
    let cluster = RedisCluster::start(3)?;
    let (backend, others) = (connect(&cluster).await?, connect(&cluster).await?);
    take_all(&backend, "job:", COUNT).await?;
    shows_each_once(&backend, &others, "job:", COUNT).await?;
    // Records that no lookup would find, and records of another prefix, are no locks.
    let shard = "{app:63}";
    let node = cluster.owner_and_other(shard)?.0;
    let record = node.cli(&["KEYS", "*:job:000*"])?;
    let record = node.cli(&["GET", record.lines().next().unwrap_or_default()])?;
    for name in ["{app:63}:elsewhere", "{app:63}x:job", "{app:6}:job"] {
        let _ = node.cli(&["SET", name, &record]);
    }
    let request = ListRequest::new().with_prefix("job:0001").with_page_size(30);
    let listed = inventory(&backend);
    let (mut next, mut keys) = (Some(request), Vec::new());
    while let Some(request) = next {
        let page = listed.list_locks(request).await?;
        next = page.next;
        assert!(page.corrupt.is_empty());
        keys.extend(page.entries.into_iter().map(|lock| lock.expose().key.expose().to_owned()));
    }
    // Locks that the other tasks had taken meanwhile, and not released.
    keys.retain(|key| !key.ends_with('+'));
    let expected: Vec<String> = (100..200).map(|number| format!("job:{number:06}")).collect();
    assert_eq!(keys, expected);
    assert!(
        inventory(&backend)
            .list_locks(ListRequest::new().with_prefix("elsewhere"))
            .await?
            .entries
            .is_empty()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_of_all_shards_are_listed_and_raised() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let (backend, other) = (connect(&cluster).await?, connect(&cluster).await?);
    take_all(&backend, "k", 100).await?;
    let page = inventory(&other).list_counters(ListRequest::new().with_page_size(1000)).await?;
    assert_eq!((page.entries.len(), page.corrupt.len()), (100, 0));
    for number in [0, 50, 99] {
        let key = format!("k{number:06}");
        let raised = inventory(&other).raise_counter(&*key, Fence::new(7)?).await?;
        assert_eq!(inventory(&backend).fence_counter(&*key).await?, Some(raised));
    }
    // Also at their place after a move.
    let name = format!("{{{PREFIX}:00}}");
    let (owner, to, slot) = cluster.owner_and_other(&name)?;
    block_in_place(|| cluster.move_slot(slot.parse()?, owner, to))?;
    let page = inventory(&other).list_counters(ListRequest::new().with_page_size(1000)).await?;
    assert_eq!((page.entries.len(), page.corrupt.len()), (100, 0));
    Ok(())
}
