//! A server whose clock was set: it refuses requests that are in time, and reports its clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_redis::contract::{ExtendRequest, ReleaseRequest};
use syncguard_redis::{ErrorCode, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisServer;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::redis::connecting::command;
use crate::redis::support::{Raw, every_operation, patient, request};

const NOON: i64 = 1_800_000_000_000;
const HOUR: i64 = 3_600_000;

/// A server with a clock of its own, and its answers to scripts.
struct Clock {
    shows: i64,
    /// True if its clock runs away with each request.
    is_mad: bool,
    /// True if it answers an acquire with a lock of an hour ago.
    repeats: bool,
    /// The deadlines of the requests.
    deadlines: Vec<i64>,
}

/// A server that knows only the requests of this test.
struct FakeServer {
    port: u16,
    clock: Arc<Mutex<Clock>>,
}

impl FakeServer {
    async fn start(is_mad: bool) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let clock = Clock { shows: NOON, is_mad, repeats: false, deadlines: Vec::new() };
        let clock = Arc::new(Mutex::new(clock));
        let shared = Arc::clone(&clock);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { serve(stream, &shared).await });
            }
        });
        Ok(Self { port, clock })
    }

    async fn backend(&self) -> Result<RedisBackend> {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let options = RedisOptions::new().with_operation_timeout(Duration::from_secs(5));
        Ok(RedisBackend::connect_with(&url, options).await?)
    }

    fn set(&self, shows: i64) {
        self.clock.lock().unwrap().shows = shows;
    }

    /// The deadlines since the last call.
    fn deadlines(&self) -> Vec<i64> {
        std::mem::take(&mut self.clock.lock().unwrap().deadlines)
    }
}

async fn serve(stream: TcpStream, clock: &Mutex<Clock>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let words = command(&mut stream).await?;
        let answer = match words[0].to_ascii_uppercase().as_str() {
            "INFO" => "$19\r\nredis_version:7.0.0\r\n".to_owned(),
            "CONFIG" => "*0\r\n".to_owned(),
            "CLIENT" => ":1\r\n".to_owned(),
            "TIME" => {
                let shows = clock.lock().unwrap().shows;
                let (seconds, micros) = (shows / 1000, shows % 1000 * 1000);
                let (seconds, micros) = (seconds.to_string(), micros.to_string());
                let (s, m) = (seconds.len(), micros.len());
                format!("*2\r\n${s}\r\n{seconds}\r\n${m}\r\n{micros}\r\n")
            }
            "EVALSHA" => run_script(&words, &mut clock.lock().unwrap())?,
            _ => "+OK\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Three names are an acquire, two arguments a release.
fn run_script(words: &[String], clock: &mut Clock) -> Result<String> {
    let (names, arguments) = words[3..].split_at(words[2].parse()?);
    let deadline = match (names.len(), arguments.len()) {
        (3, _) => &arguments[2],
        (_, 2) => &arguments[1],
        _ => &arguments[0],
    };
    let deadline: i64 = deadline.parse()?;
    clock.deadlines.push(deadline);
    if clock.is_mad {
        clock.shows = deadline + HOUR;
    }
    let time = clock.shows;
    if time > deadline {
        return Ok(format!("*2\r\n:-8\r\n:{time}\r\n"));
    }
    Ok(match (names.len(), arguments.len()) {
        (3, _) => {
            let ago = if clock.repeats { HOUR } else { 0 };
            let expires = time - ago + arguments[1].parse::<i64>()? - 1000;
            let (head, _) = arguments[0].rsplit_once("\",\"fence").context("a head")?;
            let granted = format!("{}{:015}{expires}", &head[head.len() - 22..], 7);
            let repeated = if clock.repeats { "*2\r\n:1\r\n" } else { "" };
            format!("{repeated}${}\r\n{granted}\r\n", granted.len())
        }
        (_, 2) => ":1\r\n".to_owned(),
        _ => format!(":{}\r\n", time + arguments[2].parse::<i64>()? - 1000),
    })
}

#[tokio::test]
async fn a_server_whose_clock_was_set_is_asked_once_more() -> Result<()> {
    let server = FakeServer::start(false).await?;
    let backend = server.backend().await?;
    let acquire = async || {
        let result = backend.acquire(request("k", 1000)).await.expect("an answer");
        result.acquired().expect("a free lock")
    };
    // The deadline is the operation timeout after the time of sending, and each request was sent once.
    let in_time = |shows: i64, deadlines: &[i64]| {
        let sound = shows + 4_900..shows + 7_000;
        assert!(deadlines.iter().all(|deadline| sound.contains(deadline)), "{deadlines:?}");
    };
    let lock = acquire().await;
    let deadlines = server.deadlines();
    assert_eq!(deadlines.len(), 1, "the time was known from connecting");
    in_time(NOON, &deadlines);

    server.set(NOON + HOUR);
    let extend = || ExtendRequest::new(lock.lock_id, Duration::from_secs(1));
    assert!(backend.extend(extend()?).await?.is_extended());
    let deadlines = server.deadlines();
    assert_eq!(deadlines.len(), 2, "{deadlines:?}");
    in_time(NOON, &deadlines[..1]);
    in_time(NOON + HOUR, &deadlines[1..]);

    // With a clock that was set back, it refuses nothing, and its next answer shows the clock.
    server.set(NOON);
    assert!(backend.extend(extend()?).await?.is_extended());
    let _ = acquire().await;
    let deadlines = server.deadlines();
    in_time(NOON + HOUR, &deadlines[..1]);
    in_time(NOON, &deadlines[1..]);
    assert_eq!(deadlines.len(), 2, "{deadlines:?}");

    server.set(NOON + HOUR);
    let _ = acquire().await;
    server.set(NOON + 2 * HOUR);
    assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    let deadlines = server.deadlines();
    assert_eq!(deadlines.len(), 4, "{deadlines:?}");
    in_time(NOON + 2 * HOUR, &deadlines[3..]);
    Ok(())
}

#[tokio::test]
async fn a_grant_from_before_says_nothing_of_the_time() -> Result<()> {
    let server = FakeServer::start(false).await?;
    let backend = server.backend().await?;
    server.clock.lock().unwrap().repeats = true;
    for _ in 0..2 {
        let lock = backend.acquire(request("k", 10_000)).await?.acquired().context("ours")?;
        assert_eq!(lock.expires_at.as_millis(), (NOON - HOUR + 10_000).unsigned_abs());
    }
    let deadlines = server.deadlines();
    assert!(deadlines.iter().all(|deadline| *deadline >= NOON + 4_900), "{deadlines:?}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_always_refuses_has_done_nothing() -> Result<()> {
    let server = FakeServer::start(true).await?;
    let backend = server.backend().await?;
    let (id, ttl) = (request("k", 1).lock_id, Duration::from_secs(1));
    for error in [
        backend.acquire(request("k", 1000)).await.map(drop).unwrap_err(),
        backend.extend(ExtendRequest::new(id, ttl)?).await.map(drop).unwrap_err(),
        backend.release(ReleaseRequest::new(id)).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
        assert!(error.is_retryable() && !error.is_outcome_unknown(), "{error:?}");
        assert!(error.message().contains("clock"), "{error}");
    }
    assert_eq!(server.deadlines().len(), 3 * 4, "each is sent four times");
    assert_eq!(backend.client_state().pending_releases(), 0, "nothing to clean up");
    Ok(())
}

#[tokio::test]
async fn a_clients_first_write_asks_for_the_time_and_no_other_does() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let client = Raw::connect(&server.url()).await.0;
    let backend = RedisBackend::from_client(client, patient())?;
    let before = raw.calls("time").await;
    for key in ["a", "b", "c"] {
        every_operation(&backend, key).await?;
    }
    // Each script calls TIME as well, also one that is sent in full.
    let scripts = 3 * 6;
    assert_eq!(raw.calls("time").await - before, scripts + 1);
    Ok(())
}
