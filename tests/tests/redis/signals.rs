//! Signals between processes: waiters get a signal of a release or an expiry, by any client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard::recipes::Semaphore;
use syncguard_redis::contract::{ReleaseRequest, SignalStatus};
use syncguard_redis::{LockBackend as _, LockConfig, LockError, RedisBackend, lock};
use syncguard_test_effort::either;
use syncguard_test_services::redis::RedisServer;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use syncguard_tests::calls::unpolled;
pub(crate) use syncguard_tests::calls::{SOON, until, watch};

use crate::redis::support::{Raw, alone, backend, take};

const MINUTE: u64 = 60_000;
/// Checks that `waiting` hears of a release by `holder`.
pub(crate) async fn hears(holder: &RedisBackend, waiting: &RedisBackend, key: &str) -> Result<()> {
    let held = take(holder, key, MINUTE).await;
    let mut heard = watch(waiting, key).await.expect("a watch");
    assert!(heard.is_locked);
    assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    timeout(SOON, heard.changed()).await?;
    Ok(())
}

/// The ids of the connections for signals.
pub(crate) async fn listeners(raw: &Raw) -> Vec<String> {
    let clients = raw.text("CLIENT", &["LIST"]).await.expect("a list");
    let listens = |line: &&str| field(line, "flags=").is_some_and(|flags| flags.contains('t'));
    let ids = clients.lines().filter(listens).filter_map(|line| field(line, "id="));
    ids.map(str::to_owned).collect()
}

/// A field of a line of `CLIENT LIST`.
pub(crate) fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|field| field.strip_prefix(name))
}

/// The number of records that the server tracks for clients.
pub(crate) async fn watched(raw: &Raw) -> u64 {
    number(raw, "stats", "tracking_total_keys").await
}

pub(crate) async fn number(raw: &Raw, section: &str, field: &str) -> u64 {
    let info = raw.text("INFO", &[section]).await.expect("a report");
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.expect("a field").trim().parse().expect("a number")
}

/// A waiter, and the time at which it got the lock.
fn waiter(backend: &RedisBackend, key: &str) -> JoinHandle<Result<Instant, LockError>> {
    let (backend, config) = (backend.clone(), unpolled(key));
    tokio::spawn(async move { lock(&backend, config, async |_| Instant::now()).await })
}

#[tokio::test]
async fn a_release_by_the_typescript_library_is_heard_and_an_expiry() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let (holder, waiting) = (backend(&server).await, backend(&server).await);
    let held = take(&holder, "k", MINUTE).await;
    let waiter = waiter(&waiting, "k");
    until("the waiter listens", async || watched(&raw).await == 1).await;
    let index = format!("syncguard:id:{}", held.lock_id.expose());
    let script = "return redis.call('DEL', KEYS[1], KEYS[2])";
    assert_eq!(raw.number("EVAL", &[script, "2", "syncguard:k", &index]).await, 2);
    timeout(SOON, waiter).await???;

    let started = Instant::now();
    let _short = take(&holder, "short", 200).await;
    let mut watch = watch(&waiting, "short").await.expect("a watch");
    assert!(watch.is_locked && !watch.is_over());
    timeout(SOON, watch.changed()).await?;
    // The TTL and the tolerance; Redis removes expired records ten times a second.
    assert!(started.elapsed() >= Duration::from_millis(1200), "{:?}", started.elapsed());
    assert_eq!(waiting.signals(), SignalStatus::Working);
    assert_eq!(holder.signals(), SignalStatus::Unused);
    Ok(())
}

/// A lock past its time is not live, even if its record still exists; a record that is no lock is not watched.
#[tokio::test]
async fn a_watch_is_over_after_one_change_and_knows_what_is_live() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let (holder, waiting) = (backend(&server).await, backend(&server).await);
    let held = take(&holder, "k", MINUTE).await;
    let mut both = [watch(&waiting, "k").await, watch(&waiting, "k").await].map(Option::unwrap);
    assert!(both.iter().all(|watch| watch.is_locked && !watch.is_over()));
    assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    for watch in &mut both {
        timeout(SOON, watch.changed()).await?;
        assert!(watch.is_over(), "the server says it once");
    }
    let record = "{\"key\":\"old\",\"lockId\":\"F-jSW78sCJhFIV6GYPa1lQ\",\"fence\":\"000000000000001\",\
                  \"acquiredAtMs\":1,\"expiresAtMs\":2}";
    raw.send("SET", &["syncguard:old", record]).await;
    assert!(!watch(&waiting, "old").await.expect("a watch").is_locked);
    raw.send("SET", &["syncguard:broken", "not a lock"]).await;
    assert!(watch(&waiting, "broken").await.is_none());
    assert_eq!(waiting.signals(), SignalStatus::Working);
    Ok(())
}

/// The driver forgets the oldest of many changes that nobody has read yet.
#[tokio::test]
async fn each_of_many_changes_at_once_is_heard() -> Result<()> {
    let server = RedisServer::start()?;
    let (raw, waiting) = (Raw::connect(&server.url()).await, backend(&server).await);
    let (mut watches, mut changes) = (Vec::new(), Vec::new());
    for number in 0..1000 {
        watches.push(watch(&waiting, &format!("k{number}")).await.expect("a watch"));
        changes.extend([format!("syncguard:k{number}"), "changed".to_owned()]);
    }
    let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    raw.send("MSET", &changes).await;
    for watch in &mut watches {
        timeout(SOON, watch.changed()).await?;
    }
    Ok(())
}

/// Two processes pass a key to each other, and neither ever polls.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_hand_overs_lose_no_wake_up() -> Result<()> {
    let rounds: u32 = either(100, 400);
    let _alone = alone().await;
    let server = RedisServer::start()?;
    let (changes, last) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(u32::MAX)));
    let mut tasks = JoinSet::new();
    for process in 0..2 {
        let backend = backend(&server).await;
        let (changes, last) = (Arc::clone(&changes), Arc::clone(&last));
        tasks.spawn(async move {
            let mut longest = Duration::ZERO;
            for round in 0..rounds {
                let asked = Instant::now();
                lock(&backend, unpolled("k"), async |_| {
                    longest = longest.max(asked.elapsed());
                    let is_change = last.swap(process, Ordering::SeqCst) != process;
                    changes.fetch_add(u32::from(is_change), Ordering::SeqCst);
                    // So that a release meets the other process at every step of its watch.
                    tokio::time::sleep(Duration::from_micros(u64::from(round % 20) * 100)).await;
                })
                .await?;
                // The other process's turn.
                tokio::time::sleep(Duration::from_micros(u64::from(round % 7) * 500)).await;
            }
            Ok::<_, LockError>(longest)
        });
    }
    let mut longest = Duration::ZERO;
    while let Some(result) = tasks.join_next().await {
        longest = longest.max(result??);
    }
    let changes = changes.load(Ordering::SeqCst);
    println!("{changes} hand-overs, longest wait {longest:?}");
    // The number of hand-overs depends on the machine; the test needs many.
    ensure!(changes >= rounds / 4, "{changes}");
    // Shorter than the time for which changes of a record are ignored.
    ensure!(longest < Duration::from_secs(4), "{longest:?}");
    Ok(())
}

#[tokio::test]
async fn nobody_pays_where_nobody_waits() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let backend = backend(&server).await;
    lock(&backend, unpolled("k"), async |_| ()).await?;
    let before = number(&raw, "stats", "total_commands_processed").await;
    for _ in 0..100 {
        lock(&backend, unpolled("k"), async |_| ()).await?;
    }
    let after = number(&raw, "stats", "total_commands_processed").await;
    // An acquire, a release, and the commands of the scripts: no more than without signals. On a slow machine the client
    // asks for the server's time once in a while.
    let scripts = 100 * (2 + 5 + 4);
    assert!(after - before <= scripts + 10, "{}", after - before);
    assert_eq!(listeners(&raw).await, [""; 0]);
    assert_eq!(backend.signals(), SignalStatus::Unused);
    Ok(())
}

/// A waiter that is woken and finds the lock taken again has sent one request.
#[tokio::test]
async fn a_lost_race_is_one_command_or_two() -> Result<()> {
    const RACES: u64 = 20;
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let (holder, waiting) = (backend(&server).await, backend(&server).await);
    let held = take(&holder, "k", MINUTE).await;
    let waiter = waiter(&waiting, "k");
    until("the waiter listens", async || watched(&raw).await == 1).await;
    let before = raw.calls("evalsha").await;
    // As if the lock had been released and taken in between, with another expiry.
    let script = "local record = string.gsub(redis.call('GET', KEYS[1]), '(\"expiresAtMs\":)(%d+)', \
                  function(name, expiry) return name .. string.format('%.0f', expiry + 1) end) \
                  return redis.call('SET', KEYS[1], record, 'KEEPTTL')";
    for lost in 1..=RACES {
        raw.send("EVAL", &[script, "1", "syncguard:k"]).await;
        until("it asks once more", async || {
            raw.calls("evalsha").await >= before + lost && watched(&raw).await == 1
        })
        .await;
    }
    // One poll, and one more if the waiter was among the first and tried for the lock at once.
    let asked = raw.calls("evalsha").await - before;
    assert!((RACES..=2 * RACES).contains(&asked), "{asked} for {RACES} races");
    assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    timeout(SOON, waiter).await???;
    Ok(())
}

/// A server whose table is full forgets one record for another, and reports a change of it.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_poll_where_the_server_remembers_too_little() -> Result<()> {
    const WINDOW: Duration = Duration::from_secs(3);
    const SLOTS: u32 = 4;
    let _alone = alone().await;
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let (holder, waiting) = (backend(&server).await, backend(&server).await);
    let other = Raw::connect(&server.url()).await;
    // The server forgets a record before the next command of any client.
    let busy = tokio::spawn(async move {
        loop {
            other.send("PING", &[]).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    for (table, keys) in [(1, 2), (2, 3), (3, 20)] {
        raw.send("CONFIG", &["SET", "tracking-table-max-keys", &table.to_string()]).await;
        let slots = (0..SLOTS).map(|number| format!("s{table}:permit:{number}"));
        let locks = (0..keys).map(|number| format!("k{number}")).chain(slots);
        let mut held = Vec::new();
        for key in locks {
            held.push(take(&holder, &key, MINUTE).await);
        }
        let (began, before) = (Instant::now(), raw.calls("evalsha").await);
        let mut waiters = JoinSet::new();
        for number in 0..keys {
            let config = LockConfig::new(format!("k{number}")).with_wait_up_to(SOON);
            let waiting = waiting.clone();
            waiters.spawn(async move { lock(&waiting, config, async |_| ()).await });
        }
        let config = LockConfig::new(format!("s{table}")).with_wait_up_to(SOON);
        let permits = Semaphore::new(waiting.clone(), config, SLOTS);
        waiters.spawn(async move { permits.acquire().await?.release().await.map(drop) });
        tokio::time::sleep(WINDOW).await;
        let asked = raw.calls("evalsha").await - before;
        // A record is polled four times a second at the most, and five times more at first. Three attempts and three reads
        // show that its changes are false, and then it rests for five seconds.
        let time = began.elapsed().as_secs() + 1;
        let most = held.len() as u64 * (5 + 4 * time + 6 * (1 + time / 5));
        println!("table {table}: {asked} requests for {} records, {most} allowed", held.len());
        assert!(asked <= most, "{asked} requests, {most} allowed");

        let released = Instant::now();
        for lock in held {
            assert!(holder.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        }
        // Long before the locks expire.
        while let Some(waiter) = timeout(Duration::from_secs(30), waiters.join_next()).await? {
            waiter??;
        }
        println!("table {table}: all had their turn after {:?}", released.elapsed());
    }
    busy.abort();
    Ok(())
}

/// All waiters get signals over one connection, and waiters that go away leave nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn all_keys_share_one_connection_which_goes_when_nobody_waits() -> Result<()> {
    const KEYS: usize = 100;
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let (holder, waiting) = (backend(&server).await, backend(&server).await);
    let name = |number| format!("k{number}");
    let connections = number(&raw, "clients", "connected_clients").await;
    for are_served in [true, false] {
        let mut held = Vec::new();
        for number in 0..KEYS {
            held.push(take(&holder, &name(number), MINUTE).await);
        }
        let waiters: Vec<_> = (0..KEYS).map(|number| waiter(&waiting, &name(number))).collect();
        until("all listen", async || watched(&raw).await == KEYS as u64).await;
        assert_eq!(listeners(&raw).await.len(), 1);
        assert_eq!(number(&raw, "clients", "connected_clients").await, connections + 1);
        if !are_served {
            waiters.iter().for_each(JoinHandle::abort);
            until("it is closed", async || listeners(&raw).await.is_empty()).await;
        }
        // The server forgets a key's tracking with the next change of the key.
        for lock in held {
            assert!(holder.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        }
        for waiter in waiters.into_iter().filter(|_| are_served) {
            timeout(SOON, waiter).await???;
        }
    }
    assert_eq!(watched(&raw).await, 0);
    assert_eq!(waiting.signals(), SignalStatus::Unused);
    assert_eq!(number(&raw, "clients", "connected_clients").await, connections);
    Ok(())
}

/// Backends that are dropped during a watch close the connection.
#[tokio::test]
async fn a_backend_that_is_dropped_closes_its_connection() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let waiting = backend(&server).await;
    let mut watch = watch(&waiting, "k").await.expect("a watch");
    assert_eq!(listeners(&raw).await.len(), 1);
    drop(waiting);
    timeout(SOON, watch.changed()).await?;
    assert!(watch.is_over());
    until("it is closed", async || listeners(&raw).await.is_empty()).await;
    until("no task is left", async || tasks() <= before).await;
    Ok(())
}
