//! The contract, through every kind of client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Group, Harness, Late, Suite, Verdict, conformance_tests, run};
use syncguard_postgres::deadpool_postgres::Pool;
use syncguard_postgres::tokio_postgres::NoTls;
use syncguard_postgres::{Fence, Key, PostgresBackend, PostgresOptions};

use crate::postgres::support::{pool, shared, shared_pooler, url_of};
use crate::support::gate::ProxyGate;

conformance_tests!(bare, Postgres::direct());

/// A rule that does not apply passes, so this one shows that the backend has signals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_signals_apply() {
    assert_eq!(run("a_release_is_heard", &Postgres::direct()).await, Ok(Verdict::Passed));
}

// The same cases, several at once, which is harder on the pools and faster.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unprepared_through_pgbouncer() {
    passes(Postgres::new(shared_pooler().port(), 3, true)).await;
}

mod long {
    use syncguard_test_services::postgres::{PgBouncer, PgPool, PoolMode};

    use super::{Postgres, passes, shared};

    async fn through_pgbouncer(mode: PoolMode, unprepared: bool) {
        // On a busy machine, connections end late, and with the default of 100 clients new ones are refused.
        let config = ["max_client_conn = 1000", "default_pool_size = 100"];
        let pooler = PgBouncer::start_with(shared(), mode, &config).expect("a PgBouncer");
        if unprepared || mode == PoolMode::Session || pooler.keeps_prepared().expect("settings") {
            passes(Postgres::new(pooler.port(), 3, unprepared)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sessions_of_pgbouncer() {
        through_pgbouncer(PoolMode::Session, false).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sessions_of_pgbouncer_unprepared() {
        through_pgbouncer(PoolMode::Session, true).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn transactions_of_pgbouncer() {
        through_pgbouncer(PoolMode::Transaction, false).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn statements_of_pgbouncer() {
        through_pgbouncer(PoolMode::Statement, false).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn statements_of_pgbouncer_unprepared() {
        through_pgbouncer(PoolMode::Statement, true).await;
    }

    /// With a standby that gets each read that pgpool takes for one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn through_pgpool() {
        let standby = shared().standby().expect("a standby");
        let pooler = PgPool::start(shared(), &standby).expect("a pgpool");
        passes(Postgres::new(pooler.port(), 3, false)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_connection() {
        passes(Postgres::new(shared().port(), 1, false)).await;
    }
}

async fn passes(harness: impl Harness) {
    // Not more, because a case that waits for an expiry needs its answers in time.
    const AT_ONCE: usize = 3;
    let report = Suite::new().at_once(AT_ONCE).run(harness).await;
    assert!(report.is_success(), "{report}");
    for (case, result) in report.results.iter().filter(|(case, _)| case.group == Group::Signals) {
        assert_eq!(*result, Ok(Verdict::Passed), "{}", case.name);
    }
}

struct Postgres {
    port: u16,
    size: usize,
    unprepared: bool,
    /// The backend makes its pool, with a connection for signals beside it; else the program hands it one.
    pool_of_its_own: bool,
    admin: Pool,
    connected: AtomicUsize,
}

impl Postgres {
    fn direct() -> Self {
        Self { pool_of_its_own: true, ..Self::new(shared().port(), 3, false) }
    }

    fn new(port: u16, size: usize, unprepared: bool) -> Self {
        let admin = pool(&shared().url(), 1);
        let connected = AtomicUsize::new(0);
        Self { port, size, unprepared, pool_of_its_own: false, admin, connected }
    }

    fn options(&self) -> PostgresOptions {
        PostgresOptions::new().with_unprepared_statements(self.unprepared)
    }
}

impl Harness for Postgres {
    type Backend = PostgresBackend;

    async fn connect(&self) -> PostgresBackend {
        // Half of the handles remove expired locks, which no case may notice.
        let cleanup = self.connected.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let options = self.options().with_cleanup_in_is_locked(cleanup);
        let url = url_of(self.port);
        if self.pool_of_its_own {
            let options = options.with_pool_size(self.size);
            return PostgresBackend::connect_with(&url, options).await.expect("a backend");
        }
        // Without a route of their own the signals of such a backend are off.
        let route = url_of(shared().port()).parse().expect("a URL");
        let options = options.with_signals_over(&route, NoTls);
        PostgresBackend::from_pool(pool(&url, self.size), options).expect("options in range")
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        let client = self.admin.get().await.expect("a connection");
        let counter = i64::try_from(last.get()).expect("15 digits");
        let sql = "INSERT INTO syncguard_fence_counters VALUES ('fence:' || $1::text, $2, $1)";
        client.execute(sql, &[&key.expose(), &counter]).await.expect("a counter");
    }

    async fn connect_late(&self) -> Option<Late<PostgresBackend>> {
        const LIMIT: Duration = Duration::from_secs(3);
        // For a busy machine, and for the wait for a connection.
        const SLACK: Duration = Duration::from_millis(1500);
        let (gate, port) = ProxyGate::start(self.port);
        let options = self.options().with_statement_timeout(LIMIT);
        let options = options.with_pool_wait_timeout(LIMIT);
        let backend = PostgresBackend::from_pool(pool(&url_of(port), self.size), options)
            .expect("options in range");
        Some(Late::new(backend, LIMIT + SLACK, gate))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let client = self.admin.get().await.expect("a connection");
        let sql = "UPDATE syncguard_locks SET fence = 'not a fence' WHERE key = $1";
        client.execute(sql, &[&key.expose()]).await.expect("an update") == 1
    }
}
