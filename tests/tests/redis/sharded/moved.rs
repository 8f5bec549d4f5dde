//! Shards that move from node to node. The soak moves slots and stops nodes under load.

/// Only `cargo xtask test --full` runs these.
mod long {
    use std::time::Duration;

    use anyhow::Result;
    use syncguard_redis::LockBackend as _;
    use syncguard_redis::contract::{
        ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
    };
    use syncguard_test_services::redis::RedisCluster;
    use tokio::task::block_in_place;

    use crate::redis::sharded::connect_with;
    use crate::redis::support::{patient, request, take};

    /// The slots of the shards on a node, which is one of three with equal shares.
    fn slots_of(node: usize) -> Vec<u16> {
        let slots = (0..64)
            .map(|shard| fred::util::redis_keyslot(format!("{{app:{shard:02}}}").as_bytes()));
        slots.filter(|slot| usize::from(*slot) * 3 / 16_384 == node).collect()
    }

    /// A client asks again after every shard has moved, some of them to a node that has joined since.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_knows_an_old_topology_finds_its_locks() -> Result<()> {
        let mut cluster = RedisCluster::start(3)?;
        let patient = async || connect_with(&cluster, patient()).await;
        let (backend, keyless) = (patient().await?, patient().await?);
        let mut locks = Vec::new();
        for number in 0..40 {
            locks.push(take(&backend, &format!("k{number}"), 600_000).await);
        }
        block_in_place(|| {
            cluster.add_node()?;
            for (from, to) in [(0, 1), (1, 2), (2, 3)] {
                for slot in slots_of(from) {
                    cluster.move_slot(slot, &cluster.nodes()[from], &cluster.nodes()[to])?;
                }
            }
            anyhow::Ok(())
        })?;
        for (number, lock) in locks.iter().enumerate() {
            let key = format!("k{number}");
            let lookup = LookupRequest::by_lock_id(lock.lock_id);
            assert!(keyless.lookup(lookup).await?.is_some(), "{key}");
            assert!(!backend.acquire(request(&key, 1000)).await?.is_acquired(), "{key}");
            let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
            assert!(keyless.extend(extend).await?.is_extended(), "{key}");
            let release = ReleaseRequest::new(lock.lock_id);
            assert!(backend.release(release).await?.is_released(), "{key}");
            assert!(!keyless.is_locked(IsLockedRequest::new(&*key)?).await?, "{key}");
            assert_eq!(take(&backend, &key, 1000).await.fence.get(), 2, "{key}");
        }
        Ok(())
    }
}
