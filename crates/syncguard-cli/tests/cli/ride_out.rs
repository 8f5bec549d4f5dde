//! `syncguard run --ride-out`: the store is away for a while.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syncguard_test_services::proxy::{FaultProxy, Hold};
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::wait;

use crate::harness::{Finished, Harness, LONG};

/// A tick that is months old.
const LEAP_DAY: [&str; 2] = ["--tick", "0 0 29 2 *"];

fn riding(harness: &Harness, limit: &str, options: &[&str]) -> Command {
    harness
        .command(&[&["run", "--ride-out", limit], options, &["job", "--", "echo", "ran"]].concat())
}

/// Starts the command, and returns once it has met the outage.
fn until_away(mut command: Command) -> Result<Child> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut said = String::new();
    let mut errors = BufReader::new(child.stderr.take().context("a pipe")?);
    errors.read_line(&mut said)?;
    ensure!(said.contains("asks again for up to 10m"), "{said}");
    child.stderr = Some(errors.into_inner());
    Ok(child)
}

#[test]
fn a_store_that_is_away_is_ridden_out() -> Result<()> {
    let mut server = RedisServer::start()?;
    let away = Harness::at(server.url(), None);
    server.kill()?;
    let tick = [&LEAP_DAY[..], &["--max-lateness", "9years"]].concat();
    for options in [&["--no-wait"][..], &[], &tick] {
        Finished::of(&riding(&away, "0", options).output()?).expect(69)?;
        let ends = Finished::of(&riding(&away, "200ms", options).output()?).expect(69)?;
        ensure!(ends.stderr.contains("asks again for up to 200ms"), "{ends:?}");
        let rides = until_away(riding(&away, "10m", options))?;
        server.restart()?;
        ensure!(Finished::of(&rides.wait_with_output()?).expect(0)?.stdout == "ran\n");
        server.kill()?;
    }
    Ok(())
}

#[test]
fn a_tick_that_is_too_late_when_the_store_is_back_is_missed() -> Result<()> {
    let mut server = RedisServer::start()?;
    let away = Harness::at(server.url(), None);
    let shown = away.run(&[&["tick", "job", "--json"][..], &LEAP_DAY].concat())?.expect(0)?;
    let shown: Value = serde_json::from_str(&shown.stdout)?;
    let due = Duration::from_millis(shown["overdueSinceMs"].as_u64().context("a time")?);
    server.kill()?;
    let late_from = SystemTime::now() + Duration::from_secs(1);
    let lateness = late_from.duration_since(UNIX_EPOCH + due)?.as_millis();
    let lateness = format!("{lateness}ms");
    let options = [&LEAP_DAY[..], &["--max-lateness", &lateness]].concat();
    let rides = until_away(riding(&away, "10m", &options))?;
    sleep(late_from.duration_since(SystemTime::now()).unwrap_or_default());
    server.restart()?;
    let done = Finished::of(&rides.wait_with_output()?).expect(81)?;
    ensure!(done.stdout.is_empty() && done.stderr.contains("--max-lateness"), "{done:?}");
    Ok(())
}

/// The store grants the tick, and the answer never comes: nobody runs the tick.
#[test]
fn a_tick_whose_answer_never_comes_may_be_lost() -> Result<()> {
    let server = RedisServer::start()?;
    let proxy = FaultProxy::start(server.port())?;
    let url = format!("redis://127.0.0.1:{}?operation_timeout_ms=10000", proxy.port());
    let options = [&LEAP_DAY[..], &["--max-lateness", "9years"]].concat();
    // Without room, the store refuses each acquire until the proxy holds one back.
    server.cli(&["CONFIG", "SET", "maxmemory", "100kb"])?;
    let rides = until_away(riding(&Harness::at(url, None), "10m", &options))?;
    wait::until("an acquire", LONG, || {
        let is_held = proxy.holds_bytes(b"syncguard:id:");
        if !is_held {
            // The tick's counter is read before.
            proxy.deliver();
            proxy.hold(Hold::Open);
        }
        Ok(is_held)
    })?;
    server.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
    proxy.set_latency(Duration::ZERO, 10 * LONG);
    proxy.deliver();
    let counter = ["EXISTS", "syncguard:fence:syncguard:job"];
    wait::until("the grant", LONG, || Ok(server.cli(&counter)? == "1"))?;
    // Attempts that meet no store afterwards change nothing about that.
    let away = TcpListener::bind("127.0.0.1:0")?;
    proxy.lead_to(away.local_addr()?.port());
    proxy.silence();
    proxy.set_latency(Duration::ZERO, Duration::ZERO);
    for _ in 0..4 {
        drop(away.accept()?);
    }
    proxy.lead_to(server.port());
    let done = Finished::of(&rides.wait_with_output()?).expect(69)?;
    ensure!(done.stdout.is_empty() && done.stderr.contains("the tick may be lost"), "{done:?}");
    Ok(())
}
