//! `fenced_write_*.rs`: a write under an old fence is rejected, by each store.

use std::process::Command;

use anyhow::{Result, bail, ensure};
use syncguard_firestore::{
    AcquisitionOptions, Fence, FirestoreBackend, FirestoreOptions, LockConfig, acquire,
};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

use crate::examples::stage::{LONG, Stage};

const FIRESTORE: &str = env!("CARGO_BIN_EXE_example-fenced-write-firestore");
const POSTGRES: &str = env!("CARGO_BIN_EXE_example-fenced-write-postgres");
const REDIS: &str = env!("CARGO_BIN_EXE_example-fenced-write-redis");
const REDIS_RS: &str = env!("CARGO_BIN_EXE_example-fenced-redis-rs");
const RUSQLITE: &str = env!("CARGO_BIN_EXE_example-fenced-rusqlite");
const SQLX: &str = env!("CARGO_BIN_EXE_example-fenced-sqlx");
const SQLX_SQLITE: &str = env!("CARGO_BIN_EXE_example-fenced-sqlx-sqlite");

const WRITES: [&str; 2] = [
    "the successor writes under fence 000000000000002: true",
    "the stalled one writes under fence 000000000000001: false",
];

/// The lines of a program, with fences 2 and 1 for those of the successor and of the stalled holder; and the
/// successor's fence. On a busy machine an acquire can be granted so late that it is given back, which uses up a
/// fence.
fn output(stage: &Stage) -> Result<(Vec<String>, Fence)> {
    let lines = stage.lines()?;
    let fence =
        |line: &String| line.split_once("under fence ")?.1.get(..Fence::DIGITS)?.parse().ok();
    let mut fences: Vec<Fence> = lines.iter().filter_map(fence).collect();
    fences.sort_unstable();
    fences.dedup();
    let [old, new] = fences.as_slice() else { bail!("{lines:?}") };
    let plain = |line: String| {
        let line = line.replace(&new.to_string(), "{new}");
        let line = line.replace(&old.to_string(), "000000000000001");
        line.replace("{new}", "000000000000002")
    };
    Ok((lines.iter().cloned().map(plain).collect(), *new))
}

#[tokio::test]
async fn firestore_rejects_it() -> Result<()> {
    let (emulator, stage) = (FirestoreEmulator::start()?, Stage::new()?);
    warm_up(&emulator).await?;
    let mut command = Command::new(FIRESTORE);
    command.arg("firestore://demo-syncguard").env("FIRESTORE_EMULATOR_HOST", emulator.host_port());
    stage.start_command(command)?.wait(LONG)?;
    let (lines, fence) = output(&stage)?;
    ensure!(lines == [WRITES[0], WRITES[1], "released: true"], "{lines:?}");
    let path = "/v1/projects/demo-syncguard/databases/(default)/documents/profiles/7";
    let document = emulator.get(path)?;
    ensure!(document.contains(r#""stringValue": "new""#), "{document}");
    ensure!(document.contains(&format!(r#""stringValue": "{fence}""#)), "{document}");
    Ok(())
}

/// The emulator's first answers take seconds on a busy machine. A lock with the example's TTL is over by then, and is
/// given back.
async fn warm_up(emulator: &FirestoreEmulator) -> Result<()> {
    let options = FirestoreOptions::new()
        .with_emulator(emulator.host_port())
        .with_request_timeout(LONG)
        .with_operation_timeout(LONG);
    let backend = FirestoreBackend::connect_with("firestore://demo-syncguard", options).await?;
    for _ in 0..10 {
        let patient = AcquisitionOptions::new().with_timeout(LONG);
        let config = LockConfig::new("warm").with_ttl(10 * LONG).with_acquisition(patient);
        let guard = acquire(&backend, config).await?;
        guard.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn postgres_rejects_it() -> Result<()> {
    postgres_rejects(
        POSTGRES,
        "the successor's transfer is committed",
        "the stalled one's transfer is refused: the lock is not held any more: not-found",
    )
}

/// The output of a program about the two transfers, and the accounts after them.
fn postgres_rejects(program: &str, committed: &str, refused: &str) -> Result<()> {
    let (postgres, stage) = (PostgresServer::start()?, Stage::new()?);
    stage.start(program, &[&postgres.url()])?.wait(LONG)?;
    let expected = [WRITES[0], WRITES[1], committed, refused, "released: true"];
    let (lines, fence) = output(&stage)?;
    ensure!(lines == expected, "{lines:?}");
    let accounts = postgres.psql("SELECT id, balance, fence FROM accounts ORDER BY id")?;
    ensure!(accounts == format!("1|195|{}\n2|5|0", fence.get()), "{accounts}");
    Ok(())
}

#[tokio::test]
async fn redis_rejects_it() -> Result<()> {
    let (redis, stage) = (RedisServer::start()?, Stage::new()?);
    stage.start(REDIS, &[&redis.url()])?.wait(LONG)?;
    let (lines, fence) = output(&stage)?;
    ensure!(lines == [WRITES[0], WRITES[1], "released: true"], "{lines:?}");
    let stored = redis.cli(&["MGET", "{profile:7}:value", "{profile:7}:fence"])?;
    ensure!(stored == format!("new\n{fence}"), "{stored}");
    Ok(())
}

#[test]
fn sqlite_rejects_it_with_rusqlite_and_with_sqlx() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let url = format!("sqlite://{}?mode=rwc", path("sqlx.db"));
    for (program, argument) in [(RUSQLITE, path("rusqlite.db")), (SQLX_SQLITE, url)] {
        let stage = Stage::new()?;
        stage.start(program, &[&argument])?.wait(LONG)?;
        let (lines, _) = output(&stage)?;
        ensure!(lines == [WRITES[0], WRITES[1], "stored: new", "released: true"], "{lines:?}");
    }
    Ok(())
}

#[tokio::test]
async fn postgres_rejects_it_with_sqlx() -> Result<()> {
    postgres_rejects(
        SQLX,
        "the successor's transfer is committed: true",
        "the stalled one's transfer is committed: false",
    )
}

#[tokio::test]
async fn redis_rejects_it_with_redis_rs() -> Result<()> {
    let (redis, stage) = (RedisServer::start()?, Stage::new()?);
    stage.start(REDIS_RS, &[&redis.url()])?.wait(LONG)?;
    let expected = [
        WRITES[0],
        "the successor writes in a transaction under fence 000000000000002: true",
        WRITES[1],
        "the stalled one writes in a transaction under fence 000000000000001: false",
        "released: true",
    ];
    let (lines, fence) = output(&stage)?;
    ensure!(lines == expected, "{lines:?}");
    let of_script = redis.cli(&["MGET", "{profile:7}:value", "{profile:7}:fence"])?;
    let of_multi = redis.cli(&["HMGET", "data:multi", "value", "fence"])?;
    ensure!(
        [&of_script, &of_multi].iter().all(|it| **it == format!("new\n{fence}")),
        "{of_script}"
    );
    Ok(())
}
