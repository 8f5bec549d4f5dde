//! Runs the common tests on every store.

use anyhow::{Context as _, Result};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::redis::RedisServer;

use crate::bench::{Bench, until_gone};
use crate::{inventory, run, secrets, snapshots};

/// The URL of an emulator. Its first answers, which can take seconds, are awaited here.
pub(crate) fn emulator_url(server: &FirestoreEmulator) -> Result<String> {
    let url = format!("firestore://cli?emulator={}", server.host_port());
    let patient = format!("{url}&request_timeout_ms=60000&operation_timeout_ms=60000");
    for _ in 0..5 {
        let warm = ["run", "--ttl", "10m", "warm", "--", "true"];
        Bench::at(patient.clone(), None).done(&warm)?.expect(0)?;
    }
    Ok(url)
}

fn all(bench: &Bench) -> Result<()> {
    // The first tests need an empty store.
    let tests =
        [snapshots::EVERYWHERE, run::EVERYWHERE, inventory::EVERYWHERE, secrets::EVERYWHERE];
    for (name, holds) in tests.concat() {
        holds(bench).context(name)?;
    }
    Ok(())
}

#[test]
fn sqlite() -> Result<()> {
    all(&Bench::file()?)
}

#[test]
fn redis() -> Result<()> {
    let server = RedisServer::builder().password("hunter2-redis").start()?;
    let bench = Bench::at(server.url(), server.password());
    all(&bench)
}

#[test]
fn postgres() -> Result<()> {
    let server = PostgresServer::builder().authentication(Authentication::Scram).start()?;
    server.psql("CREATE ROLE me SUPERUSER LOGIN PASSWORD 'hunter2-postgres'")?;
    let port = server.port();
    let url = format!("postgres://me:hunter2-postgres@127.0.0.1:{port}/postgres?setup_schema=true");
    let bench = Bench::at(url, Some("hunter2-postgres"));
    all(&bench)
}

#[test]
fn firestore() -> Result<()> {
    let server = FirestoreEmulator::start()?;
    let bench = Bench::at(emulator_url(&server)?, None);
    all(&bench)
}

/// If the store goes away while the command runs, the command is ended when its lock expires.
fn ends_when_the_store_is_away(bench: &Bench, pause: impl FnOnce() -> Result<()>) -> Result<()> {
    let options = ["run", "--ttl", "2s", "away", "--", "sh", "-c", "sleep 1000 & echo $$ $!; wait"];
    let mut running = bench.start(&options)?;
    let pids = running.numbers()?;
    pause()?;
    let done = running.ended()?.expect(76)?;
    anyhow::ensure!(done.stderr.contains("it could not be renewed in time"), "{done:?}");
    until_gone(&pids)
}

#[test]
fn redis_goes_away() -> Result<()> {
    let mut server = RedisServer::start()?;
    let bench = Bench::at(server.url(), None);
    ends_when_the_store_is_away(&bench, || server.pause())
}

#[test]
fn postgres_goes_away() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let bench = Bench::at(format!("{}?setup_schema=true", server.url()), None);
    ends_when_the_store_is_away(&bench, || server.pause())
}
