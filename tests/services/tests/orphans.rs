//! No server outlives the process that started it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

/// Set for the process that will be killed: this test program again.
const ROLE: &str = "SYNCGUARD_TEST_ORPHANS";

#[test]
fn servers_end_with_a_killed_process_and_leave_no_folder() -> Result<()> {
    if std::env::var_os(ROLE).is_some() {
        return start_servers_and_wait();
    }
    let mut victim = Command::new(std::env::current_exe()?)
        .args(["--exact", "--nocapture"])
        .arg("orphans::servers_end_with_a_killed_process_and_leave_no_folder")
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(victim.stdout.take().context("no output")?);
    let started = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("started ").map(|(_, rest)| rest.to_owned()))
        .context("the servers did not start")?;
    let mut words = started.split(' ');
    let folder = words.next().context("no folder")?;
    let ports = words.map(str::parse).collect::<Result<Vec<u16>, _>>()?;

    ensure!(Path::new(folder).exists() && ports.iter().all(|port| answers(*port)));
    victim.kill()?;
    victim.wait()?;

    let end = Instant::now() + Duration::from_secs(10);
    while Path::new(folder).exists() || ports.iter().any(|port| answers(*port)) {
        ensure!(Instant::now() < end, "still there: {folder} {ports:?}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn start_servers_and_wait() -> Result<()> {
    let redis = RedisServer::start()?;
    // The children are in groups of their own, and notice nothing while they are stopped.
    let mut postgres = PostgresServer::start()?;
    postgres.pause()?;
    let folder = fs::canonicalize(redis.folder())?;
    let (a, b) = (redis.port(), postgres.port());
    writeln!(stdout(), "started {} {a} {b}", folder.display())?;
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn answers(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}
