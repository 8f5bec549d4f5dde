//! How the work is spread.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use anyhow::{Context as _, Result};
use syncguard_redis::{LockBackend as _, RedisBackend, ReleaseRequest};
use syncguard_test_services::redis::{RedisCluster, RedisServer};
use syncguard_tests::random::Random;
use tokio::task::JoinSet;

use super::{connect, each, reset};
use crate::support::{alone, take};

/// With even slots, as `redis-cli --cluster create` gives them.
#[tokio::test]
async fn ten_thousand_keys_are_spread_over_three_masters() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let backend = connect(&cluster).await?;
    let _ = take(&backend, "warm", 1000).await;
    reset(&cluster)?;
    let mut random = Random::new(Random::seed());
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let keys: Vec<String> = (0..500).map(|_| format!("{:x}", random.number())).collect();
        let backend = backend.clone();
        tasks.spawn(async move {
            for key in keys {
                let lock = take(&backend, &key, 60_000).await;
                let release = ReleaseRequest::new(lock.lock_id);
                let release = release.with_key_hint(key.parse().expect("a key"));
                assert!(backend.release(release).await.expect("an answer").is_released());
            }
        });
    }
    tasks.join_all().await;
    let by_hash = each(&cluster, "commandstats", "cmdstat_evalsha:calls=")?;
    let all: f64 = by_hash.iter().sum();
    assert!(all >= 20_000.0, "{by_hash:?}");
    let shares: Vec<f64> = by_hash.iter().map(|calls| calls / all * 100.0).collect();
    assert!(shares.iter().all(|share| (28.0..=39.0).contains(share)), "{shares:?} %");
    Ok(())
}

/// What a cycle costs all masters together is what it costs a single server: at most a tenth more on a machine
/// that does nothing else, and here a little more than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_masters_work_as_much_as_one() -> Result<()> {
    let _alone = alone().await;
    let (cluster, single) = (RedisCluster::start(3)?, RedisServer::start()?);
    let sharded = connect(&cluster).await?;
    let whole = RedisBackend::connect(&single.url()).await?;
    let (mut of_three, mut of_one) = (Vec::new(), Vec::new());
    for round in 0..4 {
        let three = micros_per_cycle(&sharded, cluster.nodes()).await?;
        let one = micros_per_cycle(&whole, std::slice::from_ref(&single)).await?;
        // Scripts and memory are new to the servers at first.
        if round > 0 {
            of_three.push(three);
            of_one.push(one);
        }
    }
    let least = |figures: &[f64]| figures.iter().copied().fold(f64::INFINITY, f64::min);
    let (three, one) = (least(&of_three), least(&of_one));
    println!("server CPU of a cycle: {three:.1} \u{b5}s of three masters, {one:.1} \u{b5}s of one");
    assert!(three <= 1.3 * one, "{of_three:?} {of_one:?}");
    Ok(())
}

/// The CPU time of all these servers for an acquire and a release.
async fn micros_per_cycle(backend: &RedisBackend, nodes: &[RedisServer]) -> Result<f64> {
    const AT_ONCE: usize = 64;
    const CYCLES: usize = 150;
    let before = cpu_seconds(nodes)?;
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let backend = backend.clone();
        tasks.spawn(async move {
            for number in 0..CYCLES {
                let key = format!("cpu:{task}:{number}");
                let lock = take(&backend, &key, 60_000).await;
                let release = ReleaseRequest::new(lock.lock_id);
                let release = release.with_key_hint(key.parse().expect("a key"));
                assert!(backend.release(release).await.expect("an answer").is_released());
            }
        });
    }
    tasks.join_all().await;
    let cycles = u32::try_from(AT_ONCE * CYCLES)?;
    Ok((cpu_seconds(nodes)? - before) * 1e6 / f64::from(cycles))
}

fn cpu_seconds(nodes: &[RedisServer]) -> Result<f64> {
    let mut sum = 0.0;
    for node in nodes {
        let info = node.cli(&["INFO", "cpu"])?;
        for name in ["used_cpu_user:", "used_cpu_sys:"] {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            sum += line.context("a figure")?.trim().parse::<f64>()?;
        }
    }
    Ok(sum)
}
