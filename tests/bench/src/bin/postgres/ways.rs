//! The ways that are compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_postgres::deadpool_postgres::{
    Manager, ManagerConfig, Pool, RecyclingMethod, Runtime,
};
use syncguard_postgres::tokio_postgres::{Client, Config, NoTls, Statement};
use syncguard_postgres::{LockBackend as _, PostgresBackend, PostgresOptions, setup_schema};
use syncguard_test_services::postgres::PostgresServer;
use tokio::task::JoinSet;

use crate::figures::Figures;
use crate::naive;
use crate::pgbench::Script;

/// Connections of each pool.
pub(crate) const POOL: usize = 16;

const TTL: Duration = Duration::from_secs(60);

/// A measurement, and its number of concurrent tasks.
pub(crate) struct Way {
    name: &'static str,
    concurrency: usize,
    what: What,
}

#[derive(Clone)]
enum What {
    Cycle(PostgresBackend),
    Script(Arc<Script>),
    NaiveCycle(Pool),
    Advisory(Arc<Vec<(Client, Statement, Statement)>>),
    Attempt(PostgresBackend),
    NaiveAttempt(Pool),
    Acquire(PostgresBackend),
    Update(Pool),
}

impl Way {
    /// The cycles that are compared.
    pub(crate) async fn all(port: u16, concurrency: usize) -> Result<Vec<Self>> {
        let backend = backend(port).await?;
        let connections = concurrency.min(POOL);
        let session = backend.pool().get().await?;
        let script = Script::new(port, &session).await?;
        drop(session);
        let mut held = Vec::new();
        for _ in 0..connections {
            let (client, connection) = config(port).connect(NoTls).await?;
            tokio::spawn(connection);
            let lock = client.prepare("SELECT pg_try_advisory_lock($1)").await?;
            let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await?;
            held.push((client, lock, unlock));
        }
        let way = |name, concurrency, what| Self { name, concurrency, what };
        Ok(vec![
            way("(a) syncguard-postgres", concurrency, What::Cycle(backend)),
            way("(b) the same SQL by pgbench", connections, What::Script(Arc::new(script))),
            way("(c) the naive transaction", concurrency, What::NaiveCycle(pool(port)?)),
            way(
                "(d) pg_try_advisory_lock, no storage",
                connections,
                What::Advisory(Arc::new(held)),
            ),
        ])
    }

    /// Attempts on a held key.
    pub(crate) async fn held(port: u16) -> Result<Vec<Self>> {
        let backend = backend(port).await?;
        match backend.acquire(AcquireRequest::new("held", 100 * TTL)?).await? {
            AcquireResult::Acquired(_) | AcquireResult::Locked(_) | AcquireResult::Refused(_) => {}
        }
        Ok(vec![
            Self { name: "(a) syncguard-postgres", concurrency: 16, what: What::Attempt(backend) },
            Self {
                name: "(c) the naive transaction",
                concurrency: 16,
                what: What::NaiveAttempt(pool(port)?),
            },
        ])
    }

    /// An acquire and an UPDATE, one at a time.
    pub(crate) async fn single(port: u16) -> Result<Vec<Self>> {
        let backend = backend(port).await?;
        let plain = pool(port)?;
        let setup =
            "CREATE TABLE IF NOT EXISTS plain (key text PRIMARY KEY, number bigint NOT NULL);
            INSERT INTO plain VALUES ('key', 0) ON CONFLICT DO NOTHING";
        plain.get().await?.batch_execute(setup).await?;
        Ok(vec![
            Self { name: "acquire", concurrency: 1, what: What::Acquire(backend) },
            Self { name: "UPDATE of one row", concurrency: 1, what: What::Update(plain) },
        ])
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) async fn measure(&self, time: Duration) -> Result<Figures> {
        if let What::Script(script) = &self.what {
            let (script, clients) = (Arc::clone(script), self.concurrency);
            return tokio::task::spawn_blocking(move || script.run(clients, time)).await?;
        }
        let over = Arc::new(AtomicBool::new(false));
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for task in 0..self.concurrency {
            let (what, over) = (self.what.clone(), Arc::clone(&over));
            tasks.spawn(async move {
                let mut micros = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    micros.push(what.once(task).await?.as_secs_f64() * 1e6);
                }
                anyhow::Ok(micros)
            });
        }
        tokio::time::sleep(time).await;
        over.store(true, Ordering::Relaxed);
        let mut micros = Vec::new();
        while let Some(task) = tasks.join_next().await {
            micros.extend(task??);
        }
        Ok(Figures::new(micros, started.elapsed()))
    }
}

impl What {
    /// Runs it once, and returns the time.
    async fn once(&self, task: usize) -> Result<Duration> {
        let key = format!("task {task}");
        let started = Instant::now();
        match self {
            Self::Cycle(backend) => {
                let lock = backend.acquire(AcquireRequest::new(&key, TTL)?).await?;
                let lock = lock.acquired().context("a free key")?;
                let release = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
                ensure!(release.is_released());
            }
            Self::Script(_) => bail!("it runs by itself"),
            Self::NaiveCycle(pool) => {
                let lock_id = naive::acquire(pool, &key, TTL).await?.context("a free key")?;
                naive::release(pool, lock_id).await?;
            }
            Self::Advisory(clients) => {
                let (client, lock, unlock) = &clients[task];
                let number = i64::try_from(task)?;
                for statement in [lock, unlock] {
                    ensure!(client.query_one(statement, &[&number]).await?.get::<_, bool>(0));
                }
            }
            Self::Attempt(backend) => {
                let answer = backend.acquire(AcquireRequest::new("held", TTL)?).await?;
                ensure!(answer.is_locked());
            }
            Self::NaiveAttempt(pool) => {
                ensure!(naive::acquire(pool, "held", TTL).await?.is_none());
            }
            Self::Acquire(backend) => {
                let lock = backend.acquire(AcquireRequest::new(&key, TTL)?).await?;
                let took = started.elapsed();
                let lock = lock.acquired().context("a free key")?;
                let release = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
                ensure!(release.is_released());
                return Ok(took);
            }
            Self::Update(pool) => {
                let client = pool.get().await?;
                let sql = "UPDATE plain SET number = number + 1 WHERE key = $1";
                let update = client.prepare_cached(sql).await?;
                ensure!(client.execute(&update, &[&"key"]).await? == 1);
            }
        }
        Ok(started.elapsed())
    }
}

async fn backend(port: u16) -> Result<PostgresBackend> {
    let (pool, options) = (pool(port)?, PostgresOptions::new());
    setup_schema(&pool, &options).await?;
    let backend = PostgresBackend::from_pool(pool, options).expect("options in range");
    let lock = backend.acquire(AcquireRequest::new("first", TTL)?).await?;
    let lock = lock.acquired().context("a free key")?;
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(backend)
}

fn config(port: u16) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
    config.password(PostgresServer::PASSWORD);
    config
}

fn pool(port: u16) -> Result<Pool> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config(port), NoTls, settings);
    Ok(Pool::builder(manager).max_size(POOL).runtime(Runtime::Tokio1).build()?)
}
