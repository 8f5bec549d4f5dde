//! The members tell their time, in narrow bounds, and their cluster: no wrong clock of a minority of them counts.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use syncguard_etcd::{ClockDrift, ErrorCode, EtcdBackend, LockBackend as _, Timestamp};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::calls::until;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::etcd::support::{Raw, backend_at, fresh, options, request, shared, take, width};
use crate::support::warnings::Warnings;

const HOUR: i64 = 3_600_000;

/// A port in front of a member, which passes calls on. A request over HTTP gets a `Date` that is so many seconds ahead, or
/// the connection is closed.
pub(crate) async fn in_front(member: u16, ahead: Option<u64>) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut first = [0; 4];
                client.peek(&mut first).await?;
                if &first != b"POST" {
                    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, member)).await?;
                    return tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop);
                }
                let Some(ahead) = ahead else { return Ok(()) };
                let time = SystemTime::now() + Duration::from_secs(ahead);
                let date = httpdate::fmt_http_date(time);
                client
                    .write_all(format!("HTTP/1.0 200 OK\r\nDate: {date}\r\n\r\n").as_bytes())
                    .await
            });
        }
    });
    Ok(port)
}

pub(crate) async fn is_busy(backend: &EtcdBackend, key: &str) -> Result<bool> {
    Ok(backend.acquire(request(key, 60_000)).await?.is_busy())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bounds_are_narrow_after_some_seconds_and_few_requests() -> Result<()> {
    let proxy = FaultProxy::start(shared().port(0))?;
    let ours = backend_at(proxy.port(), &fresh(), options()).await;
    let began = Instant::now();
    let mut keys = (0..).map(|number| format!("k{number}"));
    let narrow = async || {
        let _lock = take(&ours, &keys.next().unwrap(), 60_000).await;
        width(&ours) <= 100
    };
    until("narrow", narrow).await;
    // Takeover: a holder's expiry is late by its width at most, and a rival's time is early by its own. 250 ms are allowed.
    assert!(2 * width(&ours) < 250);
    // One connection for calls, one for the first answer, and nine each half minute.
    let (seen, rounds) = (proxy.counters().connections, 1 + began.elapsed().as_secs() / 25);
    assert!(seen <= 2 + 9 * rounds, "{seen} connections in {rounds} rounds");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_an_hour_off_changes_nothing_and_is_named() -> Result<()> {
    let cluster = EtcdCluster::start(3)?;
    let wrong = in_front(cluster.port(1), Some(3600)).await?;
    let url = format!(
        "etcd://127.0.0.1:{},127.0.0.1:{wrong},127.0.0.1:{}/p",
        cluster.port(0),
        cluster.port(2)
    );
    let ours = EtcdBackend::connect_with(&url, options().with_strict_clock(true)).await?;
    let other = EtcdBackend::connect_with(&url, options()).await?;
    let held = take(&ours, "k", 1000).await;
    let machine = Timestamp::from_system_time(SystemTime::now())?;
    assert!(held.expires_at - machine < Duration::from_secs(600), "{held:?}");
    assert!(is_busy(&other, "k").await?);
    until("over", async || !is_busy(&other, "k").await.unwrap()).await;
    let report = other.report().await?;
    let off: Vec<i64> =
        report.told.iter().map(|told| told.clock.map_or(i64::MAX, ClockDrift::millis)).collect();
    assert!(off[0].abs() < 1000 && off[2].abs() < 1000 && off[1] > HOUR - 5000, "{off:?}");
    assert_eq!(report.told[1].member, format!("127.0.0.1:{wrong}"));
    assert!(report.told[0].cluster.is_some() && report.told[0].cluster == report.told[2].cluster);
    assert!(report.clock_drift.context("a drift")?.at_least() < Duration::from_secs(1));
    Ok(())
}

/// Before any operation. Where the time is told, a connect makes no call.
#[tokio::test]
async fn a_connect_warns_if_the_members_tell_no_time() -> Result<()> {
    let cluster = EtcdCluster::start(1)?;
    let before = cluster.calls(0)?;
    let warnings = Warnings::new();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let told = backend_at(cluster.port(0), "", options()).await;
    until("told", async || told.clock_drift().is_some()).await;
    assert_eq!((warnings.count(), cluster.calls(0)? - before), (0, 0));
    let port = in_front(shared().port(0), None).await?;
    let _untold = backend_at(port, &fresh(), options()).await;
    until("a warning", async || warnings.count() == 1).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_two_clusters_are_refused_before_anything_is_written() -> Result<()> {
    let (one, other) = (EtcdCluster::start(1)?, EtcdCluster::start(1)?);
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{}/two", one.port(0), other.port(0));
    let refused = |error: syncguard_etcd::LockError| {
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
        assert!(error.message().contains("two clusters"), "{error:?}");
    };
    for _ in 0..8 {
        let backend = EtcdBackend::connect_with(&url, options()).await?;
        refused(backend.acquire(request("k", 60_000)).await.unwrap_err());
        refused(backend.report().await.unwrap_err());
    }
    for cluster in [&one, &other] {
        assert_eq!(Raw(cluster).names("two/"), [""; 0]);
    }
    Ok(())
}
