//! The five stores.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use syncguard::contract::IsLockedRequest;
use syncguard::firestore::{FirestoreBackend, FirestoreOptions};
use syncguard::memory::MemoryBackend;
use syncguard::postgres::{PostgresBackend, PostgresOptions};
use syncguard::redis::{RedisBackend, RedisOptions};
use syncguard::sqlite::SqliteBackend;
use syncguard::{DynBackend, LockBackend as _};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisServer;
use syncguard_tests::differential::{Answer, Names, Step, take};
use tempfile::TempDir;

struct Servers {
    folder: TempDir,
    redis: RedisServer,
    postgres: PostgresServer,
    firestore: FirestoreEmulator,
}

fn servers() -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let firestore = std::thread::spawn(FirestoreEmulator::start);
        let postgres = PostgresServer::builder().config("max_connections = 400").start();
        Servers {
            folder: tempfile::tempdir().expect("a folder"),
            redis: RedisServer::start().expect("a Redis server"),
            postgres: postgres.expect("a PostgreSQL server"),
            firestore: firestore.join().expect("a thread").expect("a Firestore emulator"),
        }
    })
}

/// Answers are compared here, not times: a slow machine must not turn an answer into an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stores, in their order.
pub(crate) const NAMES: [&str; 5] = ["memory", "redis", "postgres", "firestore", "sqlite"];

/// Empty stores of all five kinds.
pub(crate) struct Stores {
    pub(crate) backends: [DynBackend; 5],
    /// The prefix of Redis' record names.
    pub(crate) prefix: String,
    _folder: TempDir,
}

impl Stores {
    pub(crate) async fn fresh() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let servers = servers();
        let prefix = format!("side-{number}");
        let folder = tempfile::tempdir().expect("a folder");
        let file = SqliteBackend::open(folder.path().join("locks.db")).await;
        let backends = [
            DynBackend::new(MemoryBackend::new()),
            redis(servers, &prefix).await,
            postgres(servers, number).await,
            firestore(servers, number).await,
            DynBackend::new(file.expect("a SQLite backend")),
        ];
        for (backend, name) in backends.iter().zip(NAMES) {
            assert_eq!(backend.capabilities().backend, name);
            // Opens the connection before time matters.
            let request = IsLockedRequest::new("any").expect("a key");
            assert!(!backend.is_locked(request).await.expect("an answer"), "{name}");
        }
        Self { backends, prefix, _folder: folder }
    }

    /// The answers of the five stores to concurrent requests.
    pub(crate) async fn all_take(&self, step: Step, names: &Names) -> [Answer; 5] {
        let [memory, redis, postgres, firestore, sqlite] = &self.backends;
        tokio::join!(
            take(memory, step, names),
            take(redis, step, names),
            take(postgres, step, names),
            take(firestore, step, names),
            take(sqlite, step, names),
        )
        .into()
    }
}

/// The address of one of [`NAMES`], ready for more parameters.
pub(crate) fn url(index: usize) -> String {
    let servers = servers();
    match index {
        0 => "memory:?".to_owned(),
        1 => format!("{}?", servers.redis.url()),
        2 => format!("{}?setup_schema=true", servers.postgres.url()),
        4 => format!("sqlite:{}?", servers.folder.path().join("locks.db").display()),
        _ => format!("firestore://side/(default)?emulator={}", servers.firestore.host_port()),
    }
}

async fn redis(servers: &Servers, prefix: &str) -> DynBackend {
    let options = RedisOptions::new()
        .with_key_prefix(prefix)
        .with_connect_timeout(PATIENCE)
        .with_command_timeout(PATIENCE);
    let backend = RedisBackend::connect_with(&servers.redis.url(), options).await;
    DynBackend::new(backend.expect("a Redis backend"))
}

async fn postgres(servers: &Servers, number: usize) -> DynBackend {
    let (locks, fences) = (format!("locks_{number}"), format!("fences_{number}"));
    let options = PostgresOptions::new()
        .with_tables(&locks, &fences)
        .with_pool_size(2)
        .with_connect_timeout(PATIENCE)
        .with_pool_wait_timeout(PATIENCE)
        .with_statement_timeout(PATIENCE);
    let backend = PostgresBackend::connect_with(&servers.postgres.url(), options).await;
    let backend = backend.expect("a PostgreSQL backend");
    backend.setup_schema().await.expect("tables");
    DynBackend::new(backend)
}

async fn firestore(servers: &Servers, number: usize) -> DynBackend {
    let options = FirestoreOptions::new()
        .with_emulator(servers.firestore.host_port())
        .with_connect_timeout(PATIENCE)
        .with_operation_timeout(PATIENCE)
        .with_request_timeout(PATIENCE);
    let url = format!("firestore://side-{number}");
    let backend = FirestoreBackend::connect_with(&url, options).await;
    DynBackend::new(backend.expect("a Firestore backend"))
}

/// A store with two connections.
pub(crate) struct Behind {
    pub(crate) proxy: FaultProxy,
    /// Through the proxy, over one connection.
    pub(crate) backend: DynBackend,
    pub(crate) direct: DynBackend,
}

/// The time limit for an answer on the connection that can be held up.
const BOUND: Duration = Duration::from_millis(800);

impl Behind {
    pub(crate) async fn redis() -> Self {
        let servers = servers();
        let proxy = FaultProxy::start(servers.redis.port()).expect("a proxy");
        let options = RedisOptions::new().with_key_prefix("late").with_connections(1);
        let url = format!("redis://127.0.0.1:{}", proxy.port());
        let backend = RedisBackend::connect_with(&url, options.with_command_timeout(BOUND)).await;
        let direct = redis(servers, "late").await;
        let backend = DynBackend::new(backend.expect("a Redis backend"));
        Self { proxy, backend, direct }
    }

    pub(crate) async fn postgres() -> Self {
        let servers = servers();
        let proxy = FaultProxy::start(servers.postgres.port()).expect("a proxy");
        let direct = postgres(servers, usize::MAX).await;
        let (locks, fences) = (format!("locks_{}", usize::MAX), format!("fences_{}", usize::MAX));
        let options = PostgresOptions::new().with_tables(&locks, &fences).with_pool_size(1);
        let ports = [servers.postgres.port(), proxy.port()].map(|port| format!(":{port}"));
        let url = servers.postgres.url().replace(&ports[0], &ports[1]);
        let backend = PostgresBackend::connect_with(&url, options.with_statement_timeout(BOUND));
        let backend = DynBackend::new(backend.await.expect("a PostgreSQL backend"));
        Self { proxy, backend, direct }
    }
}

/// Waits until a connection exists and is fully prepared, also after a cut, and has no other requests.
pub(crate) async fn warm_up(backend: &DynBackend) {
    let names = Names::new(&["warm"], 1);
    let steps = [
        Step::Acquire { key: 0, id: 0, ttl: 60_000 },
        Step::Extend { id: 0, ttl: 60_000 },
        Step::Release { id: 0 },
    ];
    let (started, state) = (Instant::now(), backend.client_state());
    loop {
        let mut failed = None;
        for step in steps {
            let answer = take(backend, step, &names).await;
            failed = failed.or(Some(answer).filter(|answer| matches!(answer, Answer::Failed(_))));
        }
        if failed.is_none() && state.clean_up().waiting() == 0 {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{failed:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
