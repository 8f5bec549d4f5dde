//! The cost of a cycle of acquire and release for the servers: three masters of a cluster, beside one server and
//! beside three servers that know nothing of each other, which show the least cost of spreading the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use syncguard_bench::Targets;
use syncguard_redis::contract::{AcquireRequest, ReleaseRequest};
use syncguard_redis::{LockBackend as _, RedisBackend};
use syncguard_test_services::redis::{RedisCluster, RedisServer};
use tokio::task::JoinSet;

use crate::cycles::processor_time;
use crate::floor;

const ROUNDS: usize = 5;
/// The number of concurrent tasks for each server, so that each server has as much to read at a time.
const AT_ONCE: [usize; 3] = [1, 16, 64];

/// The results of a round.
#[derive(Clone, Copy)]
struct Round {
    per_second: f64,
    /// Processor time of all servers for a cycle, in µs.
    micros: f64,
    /// The part of it in scripts, by the servers' own count.
    scripts: f64,
}

pub(crate) async fn measure(time: Duration, goals: &mut Targets) -> Result<Json> {
    let (cluster, single) = (RedisCluster::start(3)?, RedisServer::start()?);
    let apart = [RedisServer::start()?, RedisServer::start()?, RedisServer::start()?];
    let sharded = RedisBackend::connect(&cluster.url()).await?;
    let mut each = Vec::new();
    for server in &apart {
        each.push(RedisBackend::connect(&server.url()).await?);
    }
    let (sharded, whole) = ([sharded], [RedisBackend::connect(&single.url()).await?]);
    let one = std::slice::from_ref(&single);
    println!("\nServer time of a cycle, all servers together, and cycles per second:");
    let idle = idle(cluster.nodes(), time).await? - idle(one, time).await?;
    println!("  three masters that do nothing cost {idle:.0} µs a second more than one server");
    let mut table = Vec::new();
    for at_once in AT_ONCE {
        let mut rounds: [Vec<Round>; 4] = Default::default();
        for _ in 0..ROUNDS {
            rounds[0].push(round(&whole, one, at_once, time).await?);
            rounds[1].push(round(&sharded, cluster.nodes(), at_once, time).await?);
            rounds[2].push(round(&sharded, cluster.nodes(), 3 * at_once, time).await?);
            rounds[3].push(round(&each, &apart, 3 * at_once, time).await?);
        }
        let [alone, same, thrice, split] = rounds.map(median);
        println!(
            "  {at_once} at once on one server: {:.1} µs ({:.1} in scripts), {:.0} cycles/s",
            alone.micros, alone.scripts, alone.per_second
        );
        for (servers, at_once, figures) in [
            ("three masters", at_once, same),
            ("three masters", 3 * at_once, thrice),
            ("three servers", 3 * at_once, split),
        ] {
            let ratio = figures.micros / alone.micros;
            println!(
                "  {at_once} at once on {servers}: {:.1} µs ({:.1} in scripts), {:.0} cycles/s; of one server {ratio:.2}",
                figures.micros, figures.scripts, figures.per_second,
            );
            table.push(json!({
                "servers": servers, "at_once": at_once, "server_cpu_us": figures.micros,
                "script_us": figures.scripts,
                "cycles_per_second": figures.per_second, "of_one_server": ratio,
            }));
        }
        // Spreading the load costs at least as much as three servers that know nothing of each other.
        let what = format!("{} at once, time of three masters over three servers", 3 * at_once);
        goals.at_most(&what, thrice.micros / split.micros, 1.3);
    }
    Ok(json!({ "idle_us_per_second": idle, "cycles": table }))
}

fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|a, b| a.micros.total_cmp(&b.micros));
    rounds[rounds.len() / 2]
}

async fn round(
    backends: &[RedisBackend],
    servers: &[RedisServer],
    at_once: usize,
    time: Duration,
) -> Result<Round> {
    let cycles = Arc::new(AtomicUsize::new(0));
    let (before, scripts_before, started) = (cpu(servers)?, scripts(servers)?, Instant::now());
    let mut workers = JoinSet::new();
    for backend in backends.iter().cycle().take(at_once) {
        let (backend, cycles) = (backend.clone(), Arc::clone(&cycles));
        workers.spawn(async move {
            while started.elapsed() < time {
                let request = AcquireRequest::new(floor::fresh_key(), Duration::from_secs(30))?;
                let key = request.key.clone();
                let lock = backend.acquire(request).await?.acquired().context("held")?;
                let release = ReleaseRequest::new(lock.lock_id).with_key_hint(key);
                anyhow::ensure!(backend.release(release).await?.is_released(), "not held");
                cycles.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let cycles = cycles.load(Ordering::Relaxed) as f64;
    let per_second = cycles / started.elapsed().as_secs_f64();
    let micros = (cpu(servers)? - before) / cycles;
    Ok(Round { per_second, micros, scripts: (scripts(servers)? - scripts_before) / cycles })
}

/// The servers' own work in a second, in µs.
async fn idle(servers: &[RedisServer], time: Duration) -> Result<f64> {
    let before = cpu(servers)?;
    tokio::time::sleep(3 * time).await;
    Ok((cpu(servers)? - before) / (3 * time).as_secs_f64())
}

fn cpu(servers: &[RedisServer]) -> Result<f64> {
    servers.iter().map(|server| Ok(processor_time(&server.pid()?.to_string()))).sum()
}

/// The servers' time in scripts, in µs.
fn scripts(servers: &[RedisServer]) -> Result<f64> {
    let mut sum = 0.0;
    for server in servers {
        let info = server.cli(&["INFO", "commandstats"])?;
        let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
        let field = |line: &str| {
            let rest = line.split("usec=").nth(1)?;
            rest.split(',').next()?.parse::<f64>().ok()
        };
        sum += line.and_then(field).unwrap_or(0.0);
    }
    Ok(sum)
}
