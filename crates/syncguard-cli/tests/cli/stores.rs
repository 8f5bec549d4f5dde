//! The same on every store.

use anyhow::{Context as _, Result};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::redis::RedisServer;

use crate::bench::Bench;
use crate::{inventory, run};

fn all(bench: &Bench) -> Result<()> {
    for (name, holds) in run::EVERYWHERE.iter().chain(inventory::EVERYWHERE) {
        holds(bench).with_context(|| (*name).to_owned())?;
    }
    Ok(())
}

#[test]
fn sqlite() -> Result<()> {
    all(&Bench::file()?)
}

#[test]
fn fences_are_copied_from_one_file_to_another() -> Result<()> {
    inventory::copy(&Bench::file()?, &Bench::file()?)
}

#[test]
fn redis() -> Result<()> {
    let server = RedisServer::builder().password("hunter2-redis").start()?;
    all(&Bench::at(server.url(), server.password()))
}

#[test]
fn postgres() -> Result<()> {
    let server = PostgresServer::builder().authentication(Authentication::Scram).start()?;
    server.psql("CREATE ROLE me SUPERUSER LOGIN PASSWORD 'hunter2-postgres'")?;
    let port = server.port();
    let url = format!("postgres://me:hunter2-postgres@127.0.0.1:{port}/postgres?setup_schema=true");
    all(&Bench::at(url, Some("hunter2-postgres")))
}

#[test]
fn firestore() -> Result<()> {
    let server = FirestoreEmulator::start()?;
    all(&Bench::at(format!("firestore://cli?emulator={}", server.host_port()), None))
}
