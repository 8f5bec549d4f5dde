//! `cargo xtask bench redis`: cycles of acquire and release, each on an uncontended key.
//!
//! The target is against (b), the same scripts
//! sent by the same driver: the words that a cycle of the backend sends, as the server got them. (c) keeps one key a lock and
//! no fence.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::{ClusterHash, CustomCommand, Value};
use syncguard_bench::{Options, Report, Table, Way, clients, cycle};
use syncguard_core::LockBackend as _;
use syncguard_core::contract::{AcquireRequest, ReleaseRequest};
use syncguard_redis::RedisBackend;
use syncguard_test_services::redis::RedisServer;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(600)?, Report::default());
    let server = RedisServer::start()?;
    for callers in [1, 16, 64, 256] {
        let scripts = Scripts::sent_to(&server).await?;
        let rslock = rslock::LockManager::new(vec![server.url()]);
        let ways = vec![
            Way::backend("(a) syncguard-redis", RedisBackend::connect(&server.url()).await?),
            Way::new("(b) same scripts, raw fred", Arc::new(scripts), |scripts, key| async move {
                scripts.cycle(&key).await
            }),
            Way::new("(c) rslock", rslock, |rslock, key| async move {
                let lock = rslock.lock(key.as_bytes(), Duration::from_secs(30)).await?;
                rslock.unlock(&lock).await;
                Ok(())
            }),
        ];
        let table = Table::measure(ways, callers, "", time).await?;
        table.compare([0, 1], Some(0.8), &mut report);
        table.compare([0, 2], None, &mut report);
    }
    report.end(options.check)
}

/// What a cycle of the backend sends, without the library around it: the same words, with other keys and lock ids.
struct Scripts {
    client: Client,
    /// The words after `EVALSHA`, of the acquire and of the release.
    sent: [Vec<String>; 2],
    lock_id: String,
}

/// The key of the cycle that is written down. No word has it by chance.
const KEY: &str = "the key of the first cycle";

impl Scripts {
    /// Writes down what the backend sends, as the server got it.
    async fn sent_to(server: &RedisServer) -> Result<Self> {
        // The deadline of the requests is later than the end of the benchmark.
        let url = format!("{}?operation_timeout_ms=3600000", server.url());
        let backend = RedisBackend::connect(&url).await?;
        // After this the server has the scripts.
        cycle(&backend, "warm").await?;
        let mut monitor = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port()))?;
        monitor.set_read_timeout(Some(Duration::from_secs(10)))?;
        monitor.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(monitor).lines();
        ensure!(lines.next().context("an answer")?? == "+OK");
        let lock = backend.acquire(AcquireRequest::new(KEY, Duration::from_secs(30))?).await?;
        let lock_id = lock.acquired().context("a free key")?.lock_id;
        ensure!(backend.release(ReleaseRequest::new(lock_id)).await?.is_released());
        let mut next = || loop {
            let line = lines.next().context("a line")??;
            // A time, then the database and the client in brackets, then the words, quoted.
            let (_, quoted) = line.split_once("] ").context("words")?;
            let words = serde_json::Deserializer::from_str(quoted).into_iter();
            let mut words = words.collect::<Result<Vec<String>, _>>()?;
            if words[0].eq_ignore_ascii_case("evalsha") {
                words.remove(0);
                return anyhow::Ok(words);
            }
        };
        let sent = [next()?, next()?];
        ensure!(sent[0].iter().any(|word| word.contains(KEY)), "an acquire without its key");
        let client = clients::redis(&server.url()).await?;
        Ok(Self { client, sent, lock_id: lock_id.expose().to_owned() })
    }

    async fn cycle(&self, key: &str) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = format!("AAAAAAAAAA{:012}", NEXT.fetch_add(1, Ordering::Relaxed));
        for sent in &self.sent {
            let replaced = |word: &String| word.replace(KEY, key).replace(&self.lock_id, &id);
            let command = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
            let words: Vec<String> = sent.iter().map(replaced).collect();
            let answer: Value = self.client.custom(command, words).await?;
            // A lock for the acquire, and 1 for the release.
            ensure!(answer.as_string().is_some(), "{answer:?}");
        }
        Ok(())
    }
}
