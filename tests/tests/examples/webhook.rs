//! `webhook.rs`, with its locks on Redis and its data in PostgreSQL: each event is processed once, although it is
//! delivered to two processes many times at once.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::examples::stage::Stage;

const WEBHOOK: &str = env!("CARGO_BIN_EXE_example-webhook");
const EVENTS: usize = 10;
const DELIVERIES: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_is_processed_once() -> Result<()> {
    let (redis, postgres, stage) = (RedisServer::start()?, PostgresServer::start()?, Stage::new()?);
    let arguments = [&*redis.url(), &postgres.url(), "127.0.0.1:0"];
    let fleet = [stage.start(WEBHOOK, &arguments)?, stage.start(WEBHOOK, &arguments)?];
    let mut addresses = Vec::new();
    for process in &fleet {
        let start = format!("{} listens on ", process.pid());
        let find = |lines: &[String]| {
            lines.iter().find_map(|line| Some(line.strip_prefix(&start)?.to_owned()))
        };
        addresses.push(stage.until("an address", find).await?);
    }

    let mut senders = JoinSet::new();
    for delivery in 0..EVENTS * DELIVERIES {
        // Neighbours in the list deliver the same event to different processes.
        let (address, event) = (addresses[delivery % 2].clone(), delivery / DELIVERIES);
        senders
            .spawn(async move { deliver_until_accepted(&address, &format!("evt_{event}")).await });
    }
    let mut answers = BTreeMap::new();
    while let Some(answer) = senders.join_next().await {
        *answers.entry(answer??).or_insert(0) += 1;
    }
    for event in 0..EVENTS {
        let shipped = stage.count(&format!(" ships evt_{event}"))?;
        ensure!(shipped == 1, "evt_{event} was shipped {shipped} times");
    }
    let sql = "SELECT count(*), count(DISTINCT event) FROM orders";
    ensure!(postgres.psql(sql)? == "10|10", "{}", postgres.psql(sql)?);
    let expected = [("processed", EVENTS), ("processed before", EVENTS * (DELIVERIES - 1))];
    let expected = expected.map(|(answer, count)| (answer.to_owned(), count));
    ensure!(answers == BTreeMap::from(expected), "{answers:?}");

    // A week later.
    let late = deliver(&addresses[1], "evt_0").await?;
    ensure!(late == (200, "processed before".to_owned()), "{late:?}");
    let nameless = deliver(&addresses[0], "").await?;
    ensure!(nameless.0 == 400, "{nameless:?}");
    for process in fleet {
        let pid = process.pid();
        process.stop(Signal::TERM)?;
        ensure!(stage.lines()?.contains(&format!("{pid} is done")), "{pid} did not end well");
    }
    Ok(())
}

/// Delivers an event like a sender.
async fn deliver_until_accepted(address: &str, event: &str) -> Result<String> {
    for _ in 0..100 {
        match deliver(address, event).await? {
            (200, answer) => return Ok(answer),
            (503, _) => tokio::time::sleep(Duration::from_millis(100)).await,
            (status, answer) => bail!("{status} {answer}"),
        }
    }
    bail!("{event} was never accepted")
}

async fn deliver(address: &str, event: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let body = "two books";
    let head = "POST /webhook HTTP/1.1\r\nhost: webhook\r\nconnection: close";
    let request =
        format!("{head}\r\nwebhook-id: {event}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).context("no status")?.parse()?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok((status, body.to_owned()))
}
