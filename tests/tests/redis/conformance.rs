//! The contract, through every kind of client.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ReconnectPolicy};
use sha2::{Digest as _, Sha256};
use syncguard_conformance::{Case, Group, Harness, Late, Suite, conformance_tests};
use syncguard_redis::{Fence, Key, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisCluster;

use crate::redis::support::{Raw, shared};
use crate::support::gate::ProxyGate;

conformance_tests!(bare, Redis::single().await);

/// The rules that depend on the layout of the records: their names and hash tags, the way from a lock id to its key, the counters,
/// signals and listings.
fn depends_on_the_layout(case: &Case) -> bool {
    use Group::{Hints, Inventory, Keys, Signals};
    const MORE: [&str; 5] = [
        "connections_share_the_store",
        "large_fences_keep_every_digit",
        "an_extended_lock_outlives_its_first_ttl",
        "a_lock_id_touches_its_own_lock_alone",
        "a_window_gives_its_first_fence",
    ];
    matches!(case.group, Hints | Inventory | Keys | Signals) || MORE.contains(&case.name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster() {
    passes(Redis::clustered().await, Suite::new().only(depends_on_the_layout)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharded() {
    passes(Redis::sharded().await, Suite::new().only(depends_on_the_layout)).await;
}

/// Another client on the bare layout.
mod long {
    use super::{Redis, Suite, passes};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn pool() {
        passes(Redis::pooled().await, Suite::new()).await;
    }
}

async fn passes(harness: Redis, suite: Suite) {
    let report = suite.at_once(8).run(harness).await;
    assert!(report.is_success(), "{report}");
}

/// The kinds of clients.
enum Way {
    /// Each with a connection of its own.
    Connect(String),
    /// Over one client that the program shares.
    Client(Client),
    Pool(Pool),
}

struct Redis {
    way: Way,
    prefix: &'static str,
    raw: Raw,
    connected: AtomicUsize,
}

impl Redis {
    async fn single() -> Self {
        let url = shared().url();
        Self::new(Way::Connect(url.clone()), "syncguard", &url).await
    }

    async fn pooled() -> Self {
        let url = shared().url();
        Self::new(Way::Pool(pool(&url).await), "syncguard", &url).await
    }

    async fn clustered() -> Self {
        let url = cluster_url();
        let raw = Raw::connect(&url).await;
        Self::new(Way::Client(raw.0), "{conformance}", &url).await
    }

    /// With an untagged prefix.
    async fn sharded() -> Self {
        let url = cluster_url();
        Self::new(Way::Connect(url.clone()), "sharded", &url).await
    }

    async fn new(way: Way, prefix: &'static str, url: &str) -> Self {
        Self { way, prefix, raw: Raw::connect(url).await, connected: AtomicUsize::new(0) }
    }

    fn is_sharded(&self) -> bool {
        self.prefix == "sharded"
    }

    /// The prefix of a key in the names of its records.
    fn section(&self, key: &Key) -> String {
        if !self.is_sharded() {
            return self.prefix.to_owned();
        }
        let name = format!("{}:{}", self.prefix, key.expose());
        let shard = Sha256::digest(name)[0] % 64;
        format!("{{{}:{shard:02}}}", self.prefix)
    }

    fn name(&self, key: &Key) -> String {
        format!("{}:{}", self.section(key), key.expose())
    }
}

impl Harness for Redis {
    type Backend = RedisBackend;

    async fn connect(&self) -> RedisBackend {
        // Half of the handles remove expired locks, which no case may notice.
        let cleanup = self.connected.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let options =
            RedisOptions::new().with_key_prefix(self.prefix).with_cleanup_in_is_locked(cleanup);
        match &self.way {
            Way::Connect(url) => RedisBackend::connect_with(url, options).await,
            Way::Client(client) => RedisBackend::from_client(client.clone(), options),
            Way::Pool(pool) => RedisBackend::from_pool(pool.clone(), options),
        }
        .expect("a backend")
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        let counter = format!("{}:fence:{}", self.section(key), self.name(key));
        self.raw.send("SET", &[&counter, &last.get().to_string()]).await;
    }

    async fn connect_late(&self) -> Option<Late<RedisBackend>> {
        const LIMIT: Duration = Duration::from_secs(5);
        let options = RedisOptions::new().with_operation_timeout(LIMIT);
        // A cluster's nodes announce their own addresses, so its clients bypass a proxy.
        if self.is_sharded() {
            return None;
        }
        let (gate, port) = ProxyGate::start(shared().port());
        let url = format!("redis://127.0.0.1:{port}");
        let backend = match &self.way {
            Way::Connect(_) => RedisBackend::connect_with(&url, options).await,
            Way::Pool(_) => RedisBackend::from_pool(pool(&url).await, options),
            Way::Client(_) => return None,
        };
        Some(Late::new(backend.expect("a backend"), LIMIT + SLACK, gate))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        self.raw.send("SET", &[&self.name(key), "not a lock"]).await;
        true
    }
}

fn cluster_url() -> String {
    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| RedisCluster::start(3).expect("a cluster")).url()
}

async fn pool(url: &str) -> Pool {
    let policy = ReconnectPolicy::new_constant(0, 50);
    let config = Config::from_url(url).expect("a URL");
    let pool = Pool::new(config, None, None, Some(policy), 4).expect("a pool");
    pool.init().await.expect("connections");
    pool
}

/// The error of a deadline on a busy machine.
const SLACK: Duration = Duration::from_millis(500);
