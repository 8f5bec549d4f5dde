//! The limit for connecting, whatever the server does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_redis::contract::ReleaseRequest;
use syncguard_redis::{ErrorCode, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisServer;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::redis::signals::{until, watch};
use crate::redis::support::take;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer connecting may take on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

/// A server that speaks Redis for the first few commands, then sends nothing more.
struct Server {
    port: u16,
    /// The number of commands on each closed connection.
    closed: UnboundedReceiver<usize>,
    /// The number of open connections.
    open: Arc<AtomicUsize>,
}

impl Server {
    /// Answers this many commands, each after `delay`.
    async fn start(answers: usize, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (tell, closed) = unbounded_channel();
        let open = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (tell, count) = (tell.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    let commands = serve(client, answers, delay).await;
                    count.fetch_sub(1, Ordering::Relaxed);
                    let _ = tell.send(commands);
                });
            }
        });
        Ok(Self { port, closed, open })
    }

    /// Waits until a connection is closed, and returns the number of its commands. A connection without commands only
    /// asked whether this is TLS.
    async fn closed(&mut self) -> Result<usize> {
        let commands = async {
            loop {
                match self.closed.recv().await {
                    Some(0) => {}
                    commands => break commands.context("the server has ended"),
                }
            }
        };
        tokio::time::timeout(SLACK, commands).await?
    }
}

/// Returns the number of commands when the client has closed the connection.
async fn serve(client: TcpStream, answers: usize, delay: Duration) -> usize {
    let mut client = BufReader::new(client);
    let mut commands = 0;
    while let Ok(words) = command(&mut client).await {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // Only this library sends it.
        let is_name = words.starts_with(&["CLIENT", "SETNAME"]);
        if !is_name {
            commands += 1;
            if commands > answers {
                continue;
            }
            tokio::time::sleep(delay).await;
        }
        let answer = match words[..] {
            ["PING", ..] => "+PONG\r\n".to_owned(),
            ["CLIENT", ..] => ":1\r\n".to_owned(),
            ["INFO", ..] => bulk("redis_version:7.0.0\r\naof_enabled:1\r\nrole:master\r\n"),
            _ => "*0\r\n".to_owned(),
        };
        if client.get_mut().write_all(answer.as_bytes()).await.is_err() {
            break;
        }
    }
    commands
}

/// `*<count>`, and for each word `$<length>` and the word.
pub(crate) async fn command(client: &mut BufReader<TcpStream>) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(client).await? {
        let mut word = vec![0; number(client).await? + 2];
        client.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word)?);
    }
    Ok(words)
}

async fn number(client: &mut BufReader<TcpStream>) -> Result<usize> {
    let mut line = String::new();
    client.read_line(&mut line).await?;
    anyhow::ensure!(line.len() > 1, "the connection is closed");
    Ok(line[1..].trim_end().parse()?)
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn connecting_ends_within_its_timeout_wherever_the_server_falls_silent() -> Result<()> {
    // From the driver: PING, CLIENT ID, INFO server. From the durability report: INFO, CONFIG GET.
    for answers in 0..5 {
        for strict in [false, true] {
            let mut limit = CONNECT_TIMEOUT;
            loop {
                let commands = falls_silent(answers, strict, limit).await?;
                if commands == answers + 1 {
                    break;
                }
                // On a busy machine the limit may end before the server falls silent.
                assert!(commands <= answers && limit < COMMAND_TIMEOUT, "{answers}: {commands}");
                limit *= 2;
            }
        }
    }
    Ok(())
}

/// Connects to a server that falls silent after these answers. Returns the number of commands of the connection,
/// which must not be left behind.
async fn falls_silent(answers: usize, strict: bool, limit: Duration) -> Result<usize> {
    let mut server = Server::start(answers, Duration::ZERO).await?;
    let options = RedisOptions::new()
        .with_operation_timeout(COMMAND_TIMEOUT)
        .with_connect_timeout(limit)
        .with_strict_durability(strict);
    let url = format!("redis://127.0.0.1:{}", server.port);
    let started = Instant::now();
    let error = RedisBackend::connect_with(&url, options).await.unwrap_err();
    let took = started.elapsed();
    assert!(took < limit + SLACK, "{answers}: {took:?}");
    assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{answers}: {error:?}");
    assert!(!error.is_outcome_unknown() && error.is_retryable());
    assert!(error.message().contains("connect timeout"), "{error}");
    server.closed().await
}

/// No single answer is late.
#[tokio::test]
async fn connecting_ends_within_its_timeout_however_slow_the_server_is() -> Result<()> {
    // Five answers are needed: the first limit ends among the driver's answers.
    for limit in [150, 350] {
        let mut server = Server::start(usize::MAX, Duration::from_millis(100)).await?;
        let url = |limit| format!("redis://127.0.0.1:{}?connect_timeout_ms={limit}", server.port);
        let started = Instant::now();
        let error = RedisBackend::connect(&url(limit)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
        assert!(started.elapsed() < Duration::from_millis(limit) + SLACK);
        RedisBackend::connect(&url(10_000)).await?;
        for _ in 0..2 {
            server.closed().await?;
        }
    }
    Ok(())
}

/// fred takes the end of a connection for an answer to its own first commands.
#[tokio::test]
async fn a_proxy_that_ends_connections_at_a_command() -> Result<()> {
    let server = RedisServer::start()?;
    let proxy = FaultProxy::start(server.port())?;
    for (command, says) in [
        ("CLIENT\r\n", Some("CLIENT ID")),
        ("\r\nID\r\n", Some("CLIENT ID")),
        ("INFO\r\n", Some("INFO server")),
        ("SETNAME\r\n", None),
        ("TRACKING\r\n", None),
        ("HELLO\r\n", None),
    ] {
        proxy.end_at(command);
        for holder in ["", "me"] {
            let url = format!("redis://127.0.0.1:{}?holder={holder}", proxy.port());
            let connected = RedisBackend::connect(&url).await;
            if let Some(says) = says {
                let error = connected.unwrap_err();
                assert_eq!(error.code(), ErrorCode::InvalidArgument, "{command:?}: {error:?}");
                assert!(error.message().contains(says), "{command:?}: {error}");
                continue;
            }
            let backend = connected?;
            for _ in 0..5 {
                let lock = take(&backend, "k", 60_000).await;
                assert!(watch(&backend, "k").await.is_none() || !command.contains("ING"));
                let released = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
                assert!(released.is_released(), "{command:?}");
            }
        }
    }
    // A server that is being stopped is tried again.
    proxy.end_at("PING\r\n");
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    assert!(RedisBackend::connect(&url).await.unwrap_err().is_retryable());
    Ok(())
}

/// The caller gives up after any number of answers.
#[tokio::test]
async fn connecting_that_is_given_up_leaves_no_connection() -> Result<()> {
    for given_up_ms in [0, 20, 70, 120, 170, 220] {
        let server = Server::start(usize::MAX, Duration::from_millis(50)).await?;
        let url = format!("redis://127.0.0.1:{}", server.port);
        let connecting = RedisBackend::connect(&url);
        let given_up = tokio::time::timeout(Duration::from_millis(given_up_ms), connecting).await;
        assert!(given_up.is_err());
        until("no connection", async || server.open.load(Ordering::Relaxed) == 0).await;
    }
    Ok(())
}
