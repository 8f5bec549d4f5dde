//! Runs the common tests on every store.

use anyhow::{Context as _, Result};
use syncguard_test_services::azurite::AzuriteServer;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::store::Store;
use syncguard_test_services::test_each_store;

use crate::emulator::emulator_url;
use crate::harness::{Harness, until_gone};
use crate::{acquire, recipes, run, secrets, sharing, snapshots};

fn all(harness: &Harness) -> Result<()> {
    // The first tests need an empty store.
    let tests = [
        snapshots::ON_EVERY_STORE,
        run::ON_EVERY_STORE,
        acquire::ON_EVERY_STORE,
        recipes::ON_EVERY_STORE,
        sharing::ON_EVERY_STORE,
        secrets::ON_EVERY_STORE,
    ];
    for (name, holds) in tests.concat() {
        holds(harness).context(name)?;
    }
    Ok(())
}

test_each_store!(on);

fn on(store: Store) -> Result<()> {
    match store {
        // The command refuses a store that ends with its process.
        Store::Memory => Ok(()),
        Store::Sqlite => all(&Harness::file()?),
        Store::Redis => {
            let server = RedisServer::builder().password("hunter2-redis").start()?;
            all(&Harness::at(server.url(), server.password()))
        }
        Store::Postgres => {
            let server = PostgresServer::builder().authentication(Authentication::Scram).start()?;
            server.psql("CREATE ROLE me SUPERUSER LOGIN PASSWORD 'hunter2-postgres'")?;
            let port = server.port();
            let url = format!(
                "postgres://me:hunter2-postgres@127.0.0.1:{port}/postgres?setup_schema=true&connect_timeout_ms=60000"
            );
            all(&Harness::at(url, Some("hunter2-postgres")))
        }
        Store::Etcd => {
            let server = EtcdCluster::start(1)?;
            server.enable_users("hunter2-etcd")?;
            let url = format!("etcd://root:hunter2-etcd@127.0.0.1:{}/apps/locks", server.port(0));
            all(&Harness::at(url, Some("hunter2-etcd")))
        }
        Store::Firestore => {
            let server = FirestoreEmulator::start()?;
            all(&Harness::at(emulator_url(&server)?, None))
        }
        Store::ObjectStore => {
            let server = AzuriteServer::start()?;
            all(&Harness::at(server.url("cli"), None))
        }
    }
}

/// The messages of the library, in words for people who type commands.
#[test]
fn a_lock_that_is_not_given_back_before_the_end_is_told() -> Result<()> {
    let mut server = RedisServer::start()?;
    let holder = Harness::at(server.url(), None).holder("k", &["-v", "--ttl", "1h"])?;
    server.pause()?;
    let done = holder.end()?.expect(0)?;
    anyhow::ensure!(
        done.stderr.contains("locks could not be given back before the end"),
        "{done:?}"
    );
    anyhow::ensure!(!done.stderr.contains("tokio"), "{done:?}");
    Ok(())
}

/// If the store goes away while the command runs, the command is ended when its lock expires, and has its grace then.
#[test]
fn redis_goes_away() -> Result<()> {
    let mut server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    let file = tempfile::NamedTempFile::new()?;
    let script = format!(
        "trap 'sleep 1; echo cleaned > {}; exit 0' TERM; sleep 1000 & echo $$ $!; wait",
        file.path().display()
    );
    let (running, pids) = harness.family(&["--ttl", "2s", "away"], &script)?;
    server.pause()?;
    let done = running.ended()?.expect(76)?;
    anyhow::ensure!(done.stderr.contains("it could not be renewed in time"), "{done:?}");
    anyhow::ensure!(std::fs::read_to_string(file.path())? == "cleaned\n", "it had no grace");
    until_gone(&pids)
}
