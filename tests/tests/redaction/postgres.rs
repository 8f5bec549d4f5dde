//! PostgreSQL, tokio-postgres and deadpool.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::contract::AcquireRequest;
use syncguard_core::{LockBackend as _, LockId};
use syncguard_postgres::{PostgresBackend, PostgresOptions};
use syncguard_test_services::postgres::{Authentication, PostgresServer};

use crate::net::Net;
use crate::scenario::{
    Change, Handles, all_fail, locks, nothing_was_given_away, refused, secret, suite,
};
use crate::watched::watched;

pub(crate) async fn says_nothing() {
    let net = Net::global();
    let password = secret();
    let server = PostgresServer::builder().authentication(Authentication::Scram);
    let server = server.config("max_connections = 400").config("log_statement = 'all'");
    let server = Arc::new(server.start().expect("a PostgreSQL server"));
    let psql = |sql: &str| server.psql(sql).expect("an answer");
    psql(&format!("CREATE ROLE canary LOGIN SUPERUSER PASSWORD '{password}'"));
    let port = server.port();
    let url = format!("postgres://canary:{password}@127.0.0.1:{port}/postgres");
    let connect = async |url: &str, options: PostgresOptions| {
        let options = options.with_pool_size(6).with_connect_timeout(Duration::from_secs(2));
        PostgresBackend::connect_with(url, options).await
    };

    let backend = connect(&url, PostgresOptions::new()).await.expect("a backend");
    net.read("a backend", &format!("{backend:?} {:?}", PostgresOptions::new()));
    backend.setup_schema().await.expect("tables");
    net.read("a report", &format!("{:?}", backend.durability_report().await.expect("a report")));
    check_fences(&backend).await;

    let mut handles = Vec::new();
    for unprepared in [true, false] {
        let options = PostgresOptions::new()
            .with_unprepared_statements(unprepared)
            .with_cleanup_in_is_locked(true);
        handles.push(connect(&url, options).await.expect("a backend"));
    }
    let outside = Arc::clone(&server);
    let change = move |key: &str, change| {
        let sql = match change {
            Change::Counter(last) => format!(
                "INSERT INTO syncguard_fence_counters
                 VALUES ('fence:' || $k${key}$k$, {}, $k${key}$k$)",
                last.get()
            ),
            Change::Spoilt => {
                format!("UPDATE syncguard_locks SET fence = 'not a fence' WHERE key = $k${key}$k$")
            }
        };
        outside.psql(&sql).is_ok()
    };
    suite(Handles::new(handles, change)).await;
    let backend = watched(net, backend);
    locks(&backend).await;

    // Wrong credentials, and wrong URLs.
    let wrong = secret();
    for url in [
        format!("postgres://canary:{wrong}@127.0.0.1:{port}/postgres"),
        format!("postgres://{wrong}:{wrong}@127.0.0.1:{port}/postgres"),
        format!("postgres://canary:{wrong}@127.0.0.1:1/postgres"),
        format!("postgres://canary:{wrong}@127.0.0.1:port/postgres"),
        format!("postgres://canary:{wrong}@127.0.0.1:{port}/postgres?sslmode={wrong}"),
    ] {
        refused(connect(&url, PostgresOptions::new()).await);
    }

    // The tables break, then they are removed, then the server stops.
    psql("DELETE FROM syncguard_locks");
    // The server's error has the row in each of its fields.
    psql(
        "CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
           RAISE WARNING 'tells % %', NEW.key, NEW.lock_id;
           RAISE EXCEPTION 'raised % %', NEW.key, NEW.lock_id USING DETAIL = NEW.key, HINT = NEW.lock_id,
             COLUMN = NEW.key, CONSTRAINT = NEW.key, DATATYPE = NEW.key, TABLE = NEW.key, SCHEMA = NEW.lock_id;
         END $$;
         CREATE TRIGGER tells BEFORE INSERT ON syncguard_locks FOR EACH ROW EXECUTE FUNCTION tells()",
    );
    let refused_row = AcquireRequest::new(secret(), Duration::from_secs(60)).expect("a request");
    let error = backend.acquire(refused_row).await.expect_err("a trigger that fails");
    let cause = error.source().expect("a cause").to_string();
    assert!(cause.contains("SQLSTATE P0001"), "{cause}");
    psql("DROP TABLE syncguard_locks, syncguard_fence_counters");
    all_fail(&backend).await;
    psql("ALTER ROLE canary NOLOGIN");
    psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'canary'");
    all_fail(&backend).await;
    drop(server);
    all_fail(&backend).await;
    nothing_was_given_away(&["tokio_postgres"]).await;
}

/// The only statement that uses a connection of the user.
async fn check_fences(backend: &PostgresBackend) {
    let net = Net::global();
    let request = AcquireRequest::new(secret(), Duration::from_secs(60)).expect("a request");
    net.add(request.lock_id.expose());
    let lock = backend.acquire(request).await.expect("an answer").acquired().expect("a lock");
    let mut client = backend.pool().get().await.expect("a connection");
    let transaction = client.transaction().await.expect("a transaction");
    backend.check_fence(&transaction, lock.lock_id, lock.fence).await.expect("a lock that is held");
    let other = LockId::new(secret()).expect("a lock id");
    let error = backend.check_fence(&transaction, other, lock.fence).await.expect_err("no lock");
    net.read("an error", &format!("{error} {error:?}"));
}
