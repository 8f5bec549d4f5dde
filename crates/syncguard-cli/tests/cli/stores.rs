//! The same on every store.

use anyhow::{Context as _, Result};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

use crate::bench::Bench;
use crate::run::EVERYWHERE;

fn all(bench: &Bench) -> Result<()> {
    for (name, holds) in EVERYWHERE {
        holds(bench).with_context(|| (*name).to_owned())?;
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
    all(&Bench::at(server.url(), server.password()))
}

#[test]
fn postgres() -> Result<()> {
    let server = PostgresServer::start()?;
    let url = format!("{}?setup_schema=true", server.url());
    all(&Bench::at(url, Some(PostgresServer::PASSWORD)))
}

#[test]
fn firestore() -> Result<()> {
    let server = FirestoreEmulator::start()?;
    all(&Bench::at(format!("firestore://cli?emulator={}", server.host_port()), None))
}
