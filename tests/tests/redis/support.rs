//! Servers, backends and a plain client for the tests.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ConnectionConfig, ReconnectPolicy};
use fred::types::{ClusterHash, CustomCommand, Value};
use syncguard_redis::contract::{
    AcquireRequest, Acquired, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_redis::{LockBackend as _, LockError, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisServer;

/// A server that many tests share. It keeps its data, so names must not clash: see [`fresh`].
pub(crate) fn shared() -> &'static RedisServer {
    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    SERVER.get_or_init(|| RedisServer::start().expect("a Redis server"))
}

/// For tests that count work in a time: only one of them runs at once.
pub(crate) async fn alone() -> impl Drop {
    static BUSY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    BUSY.lock().await
}

/// A name nothing else in this process has.
pub(crate) fn fresh(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Options for tests of answers, which a slow machine must not turn into errors.
pub(crate) fn patient() -> RedisOptions {
    const PATIENCE: Duration = Duration::from_secs(60);
    RedisOptions::new().with_connect_timeout(PATIENCE).with_operation_timeout(PATIENCE)
}

pub(crate) async fn backend(server: &RedisServer) -> RedisBackend {
    backend_with(server, RedisOptions::new()).await
}

pub(crate) async fn backend_with(server: &RedisServer, options: RedisOptions) -> RedisBackend {
    RedisBackend::connect_with(&server.url(), options).await.expect("a connection")
}

/// A backend with a prefix of its own on the shared server, the prefix, and a plain client.
pub(crate) async fn stage(what: &str) -> (RedisBackend, String, Raw) {
    stage_with(what, RedisOptions::new()).await
}

pub(crate) async fn stage_with(what: &str, options: RedisOptions) -> (RedisBackend, String, Raw) {
    let prefix = fresh(what);
    let backend = backend_with(shared(), options.with_key_prefix(&prefix)).await;
    (backend, prefix, Raw::connect(&shared().url()).await)
}

/// Takes a lock that must be free.
pub(crate) async fn take(backend: &RedisBackend, key: &str, ttl_ms: u64) -> Acquired {
    let result = backend.acquire(request(key, ttl_ms)).await.expect("an answer");
    result.acquired().expect("a free lock")
}

pub(crate) fn request(key: &str, ttl_ms: u64) -> AcquireRequest {
    AcquireRequest::new(key, Duration::from_millis(ttl_ms)).expect("a request")
}

/// Every operation on a lock of its own; six scripts.
pub(crate) async fn every_operation(backend: &RedisBackend, key: &str) -> Result<(), LockError> {
    let lock = take(backend, key, 60_000).await;
    assert!(backend.is_locked(IsLockedRequest::new(key)?).await?);
    assert!(backend.lookup(LookupRequest::by_key(key)?).await?.is_some());
    assert!(backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.is_some());
    let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
    assert!(backend.extend(extend).await?.is_extended());
    assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

pub(crate) const GUIDE: &str = include_str!("../../../crates/syncguard-redis/src/guide.md");

/// A command in the guide's first listing after this text, word by word.
pub(crate) fn documented(after: &str) -> Vec<&'static str> {
    let (_, rest) = GUIDE.split_once(after).expect("the text");
    let listing = rest.split("```").nth(1).expect("a listing");
    listing.split_whitespace().skip(1).collect()
}

/// Commands without the library.
pub(crate) struct Raw(pub(crate) Client);

impl Raw {
    pub(crate) async fn connect(url: &str) -> Self {
        let client = Client::new(
            Config::from_url(url).expect("a URL"),
            None,
            Some(ConnectionConfig::default()),
            Some(ReconnectPolicy::new_constant(0, 50)),
        );
        client.init().await.expect("a connection");
        Self(client)
    }

    pub(crate) async fn send(&self, command: &'static str, arguments: &[&str]) -> Value {
        let result = self.try_send(command, arguments).await;
        result.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub(crate) async fn try_send(
        &self,
        command: &'static str,
        arguments: &[&str],
    ) -> Result<Value, fred::error::Error> {
        let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
        self.0.custom(command, arguments.to_vec()).await
    }

    pub(crate) async fn text(&self, command: &'static str, arguments: &[&str]) -> Option<String> {
        self.send(command, arguments).await.as_string()
    }

    pub(crate) async fn number(&self, command: &'static str, arguments: &[&str]) -> i64 {
        self.send(command, arguments).await.as_i64().expect("a number")
    }

    /// Gives the user `locks`, whose password is `password`, these rights.
    pub(crate) async fn set_user(&self, rule: &str) {
        let words = ["SETUSER", "locks"].into_iter().chain(rule.split_whitespace());
        self.send("ACL", &words.collect::<Vec<_>>()).await;
    }

    /// All records under a prefix.
    pub(crate) async fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.send("KEYS", &[&format!("{prefix}*")]).await;
        let mut names: Vec<String> = names.convert().expect("names");
        names.sort();
        names
    }

    /// The number of calls of each command.
    pub(crate) async fn calls(&self, command: &str) -> u64 {
        let stats = self.text("INFO", &["commandstats"]).await.expect("statistics");
        let line = stats.lines().find_map(|line| {
            line.strip_prefix(&format!("cmdstat_{command}:calls="))?.split(',').next()
        });
        line.map_or(0, |calls| calls.parse().expect("a count"))
    }
}
