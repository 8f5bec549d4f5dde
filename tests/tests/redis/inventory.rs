//! The inventory of a server.

use std::time::Duration;

use anyhow::Result;
use syncguard_redis::inventory::ListRequest;
use syncguard_redis::{ErrorCode, Fence, RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisServer;
use syncguard_tests::calls::until;
use syncguard_tests::inventory::{inventory, locks};

use crate::redis::support::{Raw, backend, backend_with, fresh, patient, shared, take};

/// Records as after many acquires.
async fn fill(raw: &Raw, prefix: &str, count: usize) {
    const SCRIPT: &str = "
        local time = redis.call('TIME')[1] * 1000
        for n = ARGV[2], ARGV[3] - 1 do
            local key = ARGV[1] .. string.format('%06d', n)
            local id = string.format('%022d', n)
            redis.call('SET', 'syncguard:' .. key, cjson.encode({
                lockId = id, key = key, fence = '000000000000001',
                acquiredAtMs = time, expiresAtMs = time + 3600000,
            }), 'PX', 3601000)
            redis.call('SET', 'syncguard:id:' .. id, 'syncguard:' .. key, 'PX', 3601000)
            redis.call('SET', 'syncguard:fence:syncguard:' .. key, '1')
        end";
    const AT_ONCE: usize = 5000;
    for first in (0..count).step_by(AT_ONCE) {
        let end = (first + AT_ONCE).min(count);
        raw.send("EVAL", &[SCRIPT, "0", prefix, &first.to_string(), &end.to_string()]).await;
    }
}

/// As many records of each other kind, and keys of other programs, are in the same database. So many names take more than
/// one sweep, which no case of the contract has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_locks_than_a_sweep_keeps_are_listed_once_each() -> Result<()> {
    const COUNT: usize = 100_500;
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    fill(&raw, "bulk:", COUNT).await;
    let backend = backend(&server).await;
    let _ = take(&backend, "another", 60_000).await;
    let scans = raw.calls("scan").await;
    let all = ListRequest::new().with_prefix("bulk:").with_page_size(ListRequest::MAX_PAGE_SIZE);
    let (listed, corrupt) = locks(&backend, all).await?;
    let expected = (0..COUNT).map(|number| format!("bulk:{number:06}"));
    assert!(corrupt == 0 && listed.into_iter().eq(expected));
    // More names than a cursor keeps take more than one sweep, but not one for each page.
    let sweeps = (raw.calls("scan").await - scans) / 300;
    assert!((1..=3).contains(&sweeps), "{sweeps}");
    Ok(())
}

/// A listing begins again if another server takes the place of its server: the names are in another order there.
#[tokio::test]
async fn a_listing_misses_no_lock_if_its_server_is_replaced_meanwhile() -> Result<()> {
    const COUNT: usize = 2000;
    let (old, new) = (RedisServer::start()?, RedisServer::start()?);
    let (raw, other) = (Raw::connect(&old.url()).await, Raw::connect(&new.url()).await);
    fill(&raw, "k:", COUNT).await;
    fill(&other, "k:", COUNT).await;
    let proxy = FaultProxy::start(old.port())?;
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let backend = RedisBackend::connect_with(&url, patient()).await?;
    // The listing has six steps or more.
    proxy.set_latency(Duration::ZERO, Duration::from_millis(100));
    let replaced = async {
        until("the first answer was read", async || raw.calls("scan").await > 1).await;
        proxy.lead_to(new.port());
        proxy.sever();
    };
    let (listed, ()) = tokio::join!(locks(&backend, ListRequest::new()), replaced);
    assert_eq!(listed?.0.len(), COUNT);
    Ok(())
}

/// Pattern characters of Redis are plain text in both prefixes.
#[tokio::test]
async fn signs_of_patterns_in_the_key_prefix_are_text() -> Result<()> {
    for sign in ["*", "?", "[ab]", "\\", "[^", "a-b"] {
        let prefix = format!("{}{sign}", fresh("pattern"));
        let backend = backend_with(shared(), RedisOptions::new().with_key_prefix(&prefix)).await;
        let _ = take(&backend, "k[1]", 60_000).await;
        let _ = take(&backend, "k1", 60_000).await;
        let listed = inventory(&backend).list_locks(ListRequest::new().with_prefix("k[1]")).await?;
        assert_eq!(listed.entries.len(), 1, "{prefix}");
        let all = inventory(&backend).list_locks(ListRequest::new()).await?;
        assert_eq!((all.entries.len(), all.corrupt.len()), (2, 0), "{prefix}");
        assert_eq!(inventory(&backend).list_counters(ListRequest::new()).await?.entries.len(), 2);
    }
    Ok(())
}

/// Under such a long prefix some names are hashed. The records of locks have the keys; counters do not.
#[tokio::test]
async fn hashed_names_hide_no_lock_and_no_counter_in_silence() -> Result<()> {
    for length in [300, 600, 940] {
        let prefix = format!("{}{}", fresh("long"), "p".repeat(length));
        let backend = backend_with(shared(), RedisOptions::new().with_key_prefix(&prefix)).await;
        let long = "k".repeat(500);
        for key in ["job:1", "job:2", "other", &long] {
            let _ = take(&backend, key, 60_000).await;
        }
        let jobs = inventory(&backend).list_locks(ListRequest::new().with_prefix("job:")).await?;
        assert_eq!((jobs.entries.len(), jobs.corrupt.len()), (2, 0), "{length}");
        let all = inventory(&backend).list_locks(ListRequest::new()).await?;
        assert_eq!((all.entries.len(), all.corrupt.len()), (4, 0), "{length}");
        let refused = inventory(&backend).list_counters(ListRequest::new()).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidArgument);
        assert!(refused.message().contains("227 bytes"));
        // Each counter is found by its key, and raised.
        let counter = inventory(&backend).fence_counter(&long).await?;
        assert_eq!(counter, Some(Fence::new(1)?));
        let raised = inventory(&backend).raise_counter(&long, Fence::new(8)?).await?;
        assert_eq!(raised, Fence::new(8)?);
    }
    Ok(())
}
