//! `cargo xtask bench etcd`: cycles of acquire and release, each on an uncontended key; the calls and writes of an operation;
//! and a lock that changes hands. One member, which waits for its disk.
//!
//! (b) keeps one key a lock and no fence, in a session
//! that is made once. (c) makes a lease for each lock.

mod bare;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_bench::sorted::Sorted;
use syncguard_bench::{Options, Report, Table, Way, clients, clock, cycle};
use syncguard_core::contract::{AcquireRequest, ExtendRequest, ReleaseRequest};
use syncguard_core::{LockBackend as _, Locker};
use syncguard_etcd::EtcdBackend;
use syncguard_test_services::etcd::EtcdCluster;
use tokio::task::JoinSet;

use crate::bare::Bare;

const KEY: &str = "one key";
const TTL: Duration = Duration::from_secs(60);
/// The work of a holder.
const WORK: Duration = Duration::from_millis(1);

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(1500)?, Report::default());
    let server = EtcdCluster::builder().durable().start(1)?;
    let (url, port) = (server.url(), server.port(0));
    for (callers, least) in [(1, 1.0), (16, 0.9), (64, 0.65)] {
        let ways = vec![
            Way::backend("(a) syncguard-etcd", EtcdBackend::connect(&url).await?),
            Way::new("(b) a key in a session", Bare::new(port).await?, Bare::cycle),
            Way::new("(c) a key with a lease", Bare::new(port).await?, Bare::cycle_with_lease),
        ];
        let table = Table::measure(ways, callers, "", time).await?;
        table.compare([0, 1], Some(least), &mut report);
        table.compare([0, 2], None, &mut report);
    }
    counts(&url, port, &mut report).await?;
    let bare = hand_overs([Bare::new(port).await?, Bare::new(port).await?], time * 4).await?;
    let ours = contest(&url, time * 4).await?;
    let (p50, p99, bare) = (ours.quantile(0.5), ours.quantile(0.99), bare.quantile(0.5));
    println!("\n  hand-over p50 {p50:.2} ms, p99 {p99:.2} ms; bare connections p50 {bare:.2} ms");
    report.at_most("hand-over p50 over that of bare connections", p50 / bare, 1.5);
    report.end(options.check)
}

/// The calls and the writes of each operation, as the server counts them.
async fn counts(url: &str, port: u16, report: &mut Report) -> Result<()> {
    let (backend, rival) = (EtcdBackend::connect(url).await?, EtcdBackend::connect(url).await?);
    println!("\n  calls and writes of an operation");
    let read = || -> Result<[f64; 2]> {
        let calls = clients::etcd_metric(port, "grpc_server_handled_total{")?;
        Ok([calls, clients::etcd_metric(port, "etcd_server_proposals_committed_total ")?])
    };
    let mut before = read()?;
    let mut counted = |what: &str, most: [f64; 2]| -> Result<()> {
        let now = read()?;
        report.at_most(&format!("{what}, calls"), now[0] - before[0], most[0]);
        report.at_most(&format!("{what}, writes"), now[1] - before[1], most[1]);
        before = now;
        Ok(())
    };
    cycle(&backend, KEY).await?;
    counted("cycle of a new key", [3.0, 2.0])?;
    let lock = backend.acquire(AcquireRequest::new(KEY, TTL)?).await?;
    let lock_id = lock.acquired().context("a free key")?.lock_id;
    counted("acquire, counter known", [1.0, 1.0])?;
    ensure!(rival.acquire(AcquireRequest::new(KEY, TTL)?).await?.acquired().is_none());
    counted("acquire of a held key", [1.0, 0.0])?;
    ensure!(backend.extend(ExtendRequest::new(lock_id, TTL)?).await?.is_extended());
    counted("extend", [1.0, 1.0])?;
    ensure!(backend.release(ReleaseRequest::new(lock_id)).await?.is_released());
    counted("release", [1.0, 1.0])
}

/// The times from the beginning of a release to the next grant, with four clients of four waiters each.
async fn contest(url: &str, time: Duration) -> Result<Sorted> {
    let (mut waiters, end) = (JoinSet::new(), clock::now() + u64::try_from(time.as_nanos())?);
    for _ in 0..4 {
        let locker = Locker::new(EtcdBackend::connect(url).await?);
        for _ in 0..4 {
            let locker = locker.clone();
            waiters.spawn(async move {
                let mut turns = Vec::new();
                while clock::now() < end {
                    let guard = locker.acquire(KEY).await?;
                    let granted = clock::now();
                    clock::exactly(WORK).await?;
                    turns.push((granted, clock::now()));
                    guard.release().await?;
                }
                anyhow::Ok(turns)
            });
        }
    }
    let mut turns = waiters.join_all().await.into_iter().collect::<Result<Vec<_>>>()?.concat();
    turns.sort_unstable();
    Ok(Sorted::new(turns.windows(2).map(|pair| pair[1].0 - pair[0].1).collect()))
}

/// The same of two bare clients by turns: a deletion, its event, and a transaction.
async fn hand_overs(mut bare: [Bare; 2], time: Duration) -> Result<Sorted> {
    let mut deletions = bare[0].deletions(KEY).await?;
    let (mut times, end) = (Vec::new(), clock::now() + u64::try_from(time.as_nanos())?);
    ensure!(bare[0].take(KEY).await?);
    while clock::now() < end {
        let [one, other] = &bare;
        let next = async {
            deletions.message().await?.context("an event")?;
            ensure!(other.take(KEY).await?);
            Ok(clock::now())
        };
        clock::exactly(WORK).await?;
        let begun = clock::now();
        let ((), granted) = tokio::try_join!(one.give_back(KEY), next)?;
        times.push(granted - begun);
        bare.swap(0, 1);
    }
    bare[0].give_back(KEY).await?;
    Ok(Sorted::new(times))
}
