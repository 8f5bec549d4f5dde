//! The ways to take and give back a lock, and how fast each is.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use syncguard_redis::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_redis::{LockBackend as _, RedisBackend};
use syncguard_test_services::redis::RedisServer;
use tokio::task::JoinSet;

use crate::floor::{self, Scripts};

/// One way, with its connection.
#[derive(Clone)]
pub(crate) enum Way {
    Backend(RedisBackend),
    Fred(Client, Arc<Scripts>),
    Benchmark(Arc<Scripts>),
    Rslock(rslock::LockManager),
    Plain(Client, Arc<Scripts>),
    RedisRs(redis::aio::MultiplexedConnection, Arc<Scripts>),
}

/// The results of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Processor time per cycle in µs, of this process and of the server; 0 where it is not known.
    pub(crate) client: f64,
    pub(crate) server: f64,
}

impl Figures {
    pub(crate) fn median(mut rounds: Vec<Self>) -> Self {
        rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        rounds[rounds.len() / 2]
    }
}

impl Way {
    /// (a) to (f), in this order.
    pub(crate) async fn all(server: &RedisServer, backend: RedisBackend) -> Result<[Self; 6]> {
        let scripts = Arc::new(Scripts::load(server).await?);
        let redis_rs = redis::Client::open(server.url())?;
        Ok([
            Self::Backend(backend),
            Self::Fred(floor::fred(server).await?, Arc::clone(&scripts)),
            Self::Benchmark(Arc::clone(&scripts)),
            Self::Rslock(rslock::LockManager::new(vec![server.url()])),
            Self::Plain(floor::fred(server).await?, Arc::clone(&scripts)),
            Self::RedisRs(redis_rs.get_multiplexed_async_connection().await?, scripts),
        ])
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Backend(_) => "(a) syncguard-redis",
            Self::Fred(..) => "(b) same scripts, raw fred",
            Self::Benchmark(_) => "(c) same scripts, redis-benchmark",
            Self::Rslock(_) => "(d) rslock",
            Self::Plain(..) => "(e) SET NX PX + compare, raw fred",
            Self::RedisRs(..) => "(f) same scripts, raw redis-rs",
        }
    }

    pub(crate) async fn measure(
        &self,
        server: &RedisServer,
        concurrency: usize,
        time: Duration,
    ) -> Result<Figures> {
        if let Self::Benchmark(scripts) = self {
            let client = floor::fred(server).await?;
            floor::somebody_elses_lock(&client).await?;
            let figures = redis_benchmark(server, scripts, concurrency, time);
            let _: () = client.flushall(false).await?;
            return figures;
        }
        let mut workers = JoinSet::new();
        let before = (processor_time("self"), processor_time(&server.pid()?.to_string()));
        let started = Instant::now();
        for _ in 0..concurrency {
            let way = self.clone();
            workers.spawn(async move {
                let key = floor::fresh_key();
                let mut latencies = Vec::with_capacity(16_384);
                while started.elapsed() < time {
                    let start = Instant::now();
                    way.cycle(&key).await?;
                    latencies.push(start.elapsed());
                }
                anyhow::Ok(latencies)
            });
        }
        let mut latencies = Vec::new();
        while let Some(worker) = workers.join_next().await {
            latencies.append(&mut worker??);
        }
        let took = started.elapsed();
        latencies.sort_unstable();
        let percentile = |of_hundred: usize| {
            let index = (latencies.len() - 1) * of_hundred / 100;
            latencies[index].as_secs_f64() * 1e6
        };
        let count = latencies.len() as f64;
        let each = |micros: f64| micros / count;
        Ok(Figures {
            per_second: count / took.as_secs_f64(),
            p50: percentile(50),
            p99: percentile(99),
            client: each(processor_time("self") - before.0),
            server: each(processor_time(&server.pid()?.to_string()) - before.1),
        })
    }

    async fn cycle(&self, key: &str) -> Result<()> {
        const TTL: Duration = Duration::from_secs(30);
        match self {
            Self::Backend(backend) => {
                let request = AcquireRequest::new(key, TTL)?;
                let AcquireResult::Acquired(lock) = backend.acquire(request).await? else {
                    bail!("held");
                };
                if !backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released() {
                    bail!("not held");
                }
            }
            Self::Fred(client, scripts) => scripts.cycle_with_fred(client, key).await?,
            Self::Plain(client, scripts) => scripts.plain_cycle_with_fred(client, key).await?,
            Self::RedisRs(connection, scripts) => {
                scripts.cycle_with_redis_rs(connection.clone(), key).await?;
            }
            Self::Rslock(manager) => {
                let lock = manager.lock(key.as_bytes(), TTL).await?;
                manager.unlock(&lock).await;
            }
            Self::Benchmark(_) => unreachable!("a process of its own"),
        }
        Ok(())
    }
}

/// Both scripts one after the other, as far as redis-benchmark can: it cannot pass the id of the granted lock to the
/// release, which therefore finds another lock and deletes nothing. That improves its result a little.
fn redis_benchmark(
    server: &RedisServer,
    scripts: &Scripts,
    concurrency: usize,
    time: Duration,
) -> Result<Figures> {
    static ROUND: AtomicU64 = AtomicU64::new(0);
    let round = ROUND.fetch_add(1, Ordering::Relaxed);
    // About as long as the others.
    let count = if concurrency == 1 { 10_000.0 } else { 40_000.0 } * time.as_secs_f64();
    let before = processor_time(&server.pid()?.to_string());
    let mut sum = Figures { per_second: 0.0, p50: 0.0, p99: 0.0, client: 0.0, server: 0.0 };
    for arguments in [scripts.benchmark_acquire(round), scripts.benchmark_release()] {
        let output = Command::new("redis-benchmark")
            .args(["-p", &server.port().to_string(), "-c", &concurrency.to_string()])
            .args(["-n", &format!("{count:.0}"), "-r", "1000000000", "--csv"])
            .args(arguments)
            .output()
            .context("redis-benchmark, of the package redis-tools")?;
        let output = String::from_utf8(output.stdout)?;
        let last = output.lines().last().context("no output")?;
        let fields: Vec<f64> = last
            .rsplit(',')
            .take(7)
            .map(|field| field.trim_matches('"').parse())
            .collect::<Result<_, _>>()
            .with_context(|| output.clone())?;
        // rps, average, minimum, p50, p95, p99, maximum; from the end.
        sum.per_second += 1.0 / fields[6];
        sum.p50 += fields[3] * 1000.0;
        sum.p99 += fields[1] * 1000.0;
    }
    sum.per_second = 1.0 / sum.per_second;
    sum.server = (processor_time(&server.pid()?.to_string()) - before) / count;
    Ok(sum)
}

/// The processor time of a process in µs, where there is a /proc with hundredths of seconds.
pub(crate) fn processor_time(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let hundredths = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    hundredths.sum::<f64>() * 10_000.0
}
