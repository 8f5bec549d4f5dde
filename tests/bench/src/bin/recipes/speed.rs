//! The time to take a permit and a set.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_bench::Targets;
use syncguard_recipes::Semaphore;
use syncguard_redis::{AutoExtend, LockConfig, RedisBackend, acquire};
use syncguard_test_services::redis::RedisServer;

use crate::commands;

const ROUNDS: usize = 9;
const CYCLES: u32 = 1_500;

/// A free permit, beside a plain lock that is kept alive as well.
pub(crate) async fn semaphore(
    server: &RedisServer,
    backend: &RedisBackend,
    goals: &mut Targets,
) -> Result<()> {
    let semaphore = Semaphore::new(backend.clone(), "bench:semaphore", 16)?;
    let plain = LockConfig::new("bench:plain").with_auto_extend(AutoExtend::new());
    let (mut permits, mut locks) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut took = Duration::ZERO;
        for _ in 0..CYCLES {
            let started = Instant::now();
            let guard = acquire(backend, plain.clone()).await?;
            took += started.elapsed();
            guard.release().await?;
        }
        locks.push(took);
        let mut took = Duration::ZERO;
        for _ in 0..CYCLES {
            let started = Instant::now();
            let permit = semaphore.acquire().await?;
            took += started.elapsed();
            permit.release().await?;
        }
        permits.push(took);
    }
    let before = commands(server)?;
    for _ in 0..100 {
        acquire(backend, plain.clone()).await?.release().await?;
    }
    let between = commands(server)?;
    for _ in 0..100 {
        semaphore.acquire().await?.release().await?;
    }
    let of_lock = (between - before) as f64 / 100.0;
    let each = (commands(server)? - between) as f64 / 100.0;
    let (permit, lock) = (median(permits), median(locks));
    println!("Semaphore with room (16 permits), against a plain lock with auto-extend:");
    println!("  acquire of a permit {permit:.1} µs, of a lock {lock:.1} µs");
    goals.at_least("permits for each lock in the same time", lock / permit, 0.9);
    println!("  requests for acquire and release of a lock: {of_lock:.2}");
    goals.at_most("requests for acquire and release of a permit", each, 2.0);
    Ok(())
}

/// Five keys, one after the other and back in one go, beside five plain locks.
pub(crate) async fn lock_all(
    server: &RedisServer,
    backend: &RedisBackend,
    goals: &mut Targets,
) -> Result<()> {
    let keys = ["bench:a", "bench:b", "bench:c", "bench:d", "bench:e"];
    let (mut taken, mut given, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let (mut requests, mut sets) = (0, 0);
    for _ in 0..ROUNDS {
        let (mut takes, mut gives) = (Duration::ZERO, Duration::ZERO);
        let before = commands(server)?;
        for _ in 0..CYCLES / 5 {
            let started = Instant::now();
            let set = syncguard_recipes::lock_all(backend, keys).await?;
            takes += started.elapsed();
            let started = Instant::now();
            set.release().await?;
            gives += started.elapsed();
            sets += 1;
        }
        requests += commands(server)? - before;
        taken.push(takes);
        given.push(gives);
        let mut took = Duration::ZERO;
        for _ in 0..CYCLES / 5 {
            let started = Instant::now();
            let mut guards = Vec::new();
            for key in keys {
                let config = LockConfig::new(key).with_auto_extend(AutoExtend::new());
                guards.push(acquire(backend, config).await?);
            }
            took += started.elapsed();
            for guard in guards {
                guard.release().await?;
            }
        }
        plain.push(took);
    }
    let each = requests as f64 / f64::from(sets);
    let (take, give, plain) = (median(taken) * 5.0, median(given) * 5.0, median(plain) * 5.0);
    println!("\nlock_all of five keys:");
    println!(
        "  taken in {take:.1} µs, given back in {give:.1} µs; five plain locks are taken in {plain:.1} µs"
    );
    goals.at_most("taken, in the time of one plain acquire", take / plain * 5.0, 6.0);
    goals.at_most("given back, in the time of one plain acquire", give / plain * 5.0, 3.0);
    goals.at_most("requests for taking and giving back", each, 10.0);
    Ok(())
}

/// The microseconds of one cycle.
fn median(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    rounds[rounds.len() / 2].as_secs_f64() * 1e6 / f64::from(CYCLES)
}
