//! Servers that fall silent, refuse, or are reached over connections that drop packets.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard::contract::{IsLockedRequest, ReleaseRequest, SignalStatus};
use syncguard::inventory::ListRequest;
use syncguard::{AcquisitionOptions, ErrorCode, LockBackend, LockConfig, LockId, acquire};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::store::Store;
use syncguard_test_services::test_each_server;
use syncguard_tests::calls::{all_at_once, until};
use syncguard_tests::inventory::locks;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{MINUTE, at, failures_before_an_extend, port, take};
use crate::differential::stores::part;

/// A port that is silent while this lives.
pub(crate) struct Silent {
    port: u16,
    _listener: TcpListener,
    _full: Vec<TcpStream>,
}

impl Silent {
    /// The system completes connections, and no program answers on them.
    pub(crate) async fn after_the_handshake(at: (Ipv4Addr, u16)) -> Result<Self> {
        let listener = TcpListener::bind(at).await?;
        Ok(Self { port: listener.local_addr()?.port(), _listener: listener, _full: Vec::new() })
    }

    /// The first packets of further connections are dropped, because the listener's queue is full.
    pub(crate) async fn from_the_first_packet(at: (Ipv4Addr, u16)) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(at.into())?;
        let listener = socket.listen(1)?;
        let address = listener.local_addr()?;
        let mut full = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(300), TcpStream::connect(address)).await
        {
            full.push(connected?);
            if full.len() > 100 {
                bail!("the queue has no end");
            }
        }
        Ok(Self { port: address.port(), _listener: listener, _full: full })
    }

    pub(crate) async fn of_each_kind() -> Result<[Self; 2]> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        Ok([Self::after_the_handshake(any).await?, Self::from_the_first_packet(any).await?])
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Runs every operation of a backend whose timeouts are a second, on a server that cannot answer.
pub(crate) async fn all_fail(
    backend: &impl LockBackend,
    id: LockId,
    code: ErrorCode,
) -> Result<()> {
    let began = Instant::now();
    let results = all_at_once(backend, "other", id).await;
    // The rest is for a busy machine.
    ensure!(began.elapsed() < Duration::from_secs(22), "{:?}", began.elapsed());
    for result in results {
        let error = result.err().context("an answer of a server that cannot answer")?;
        // A last try that begins at the end of the operation's time has no time left for any answer.
        ensure!([code, ErrorCode::NetworkTimeout].contains(&error.code()), "{error:?}");
        ensure!(error.is_retryable(), "{error:?}");
    }
    Ok(())
}

/// The server carries out later what it got while its clients waited in vain.
async fn falls_silent(store: Store) -> Result<()> {
    let proxy = FaultProxy::start(port(store))?;
    let part = part();
    let direct = at(store, port(store), &part, MINUTE).await?;
    let ours = at(store, proxy.port(), &part, Duration::from_secs(1)).await?;
    let held = take(&direct, "k").await?;
    let answers = async || ours.is_locked(IsLockedRequest::new("k").unwrap()).await.is_ok();
    until("connected", answers).await;
    for (silent, code) in
        [(true, ErrorCode::NetworkTimeout), (false, ErrorCode::ServiceUnavailable)]
    {
        let before = proxy.counters().connections;
        if silent {
            proxy.freeze(true);
        } else {
            proxy.refuse();
            proxy.sever();
        }
        for _ in 0..2 {
            all_fail(&ours, held, code).await?;
        }
        proxy.freeze(false);
        proxy.accept()?;
        until("connected again", answers).await;
        let opened = proxy.counters().connections - before;
        ensure!(opened <= 40, "{opened} connections");
    }
    let clean_up = || ours.client_state();
    until("settled", async || clean_up().pending_releases() == 0).await;
    ensure!(clean_up().left_to_ttl() == 0);
    // A release that was lost may be carried out now.
    let _ = direct.release(ReleaseRequest::new(held)).await?;
    until("free", async || locks(&direct, ListRequest::new()).await.unwrap().0.is_empty()).await;
    Ok(())
}

/// The open connections of a backend drop packets, over which it holds a lock, and waits for the release of another one.
async fn drops_packets(store: Store) -> Result<()> {
    let proxy = FaultProxy::start(port(store))?;
    let part = part();
    // Patient with a busy machine; the calls that fail take this long.
    let ours = at(store, proxy.port(), &part, Duration::from_secs(3)).await?;
    let other = at(store, port(store), &part, MINUTE).await?;
    let lock = take(&ours, "key").await?;
    let held = acquire(&other, LockConfig::new("held").with_ttl(10 * MINUTE)).await?;
    let mut options = AcquisitionOptions::new().with_timeout(5 * MINUTE);
    if store.has_signals() {
        // So long that only a signal can be the reason.
        options = options.with_retry_delay(MINUTE);
    }
    let config = LockConfig::new("held").with_acquisition(options).with_ride_out(5 * MINUTE);
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { acquire(&ours, config).await }
    });
    if store.has_signals() {
        until("it hears", async || ours.health().await.signals == SignalStatus::Working).await;
    }
    proxy.silence();
    let failures = failures_before_an_extend(&ours, lock).await?;
    let released = Instant::now();
    held.release().await?;
    drop(waiting.await??);
    ensure!(released.elapsed() < 2 * MINUTE, "the waiter heard nothing");
    // Each open connection of a pool may cost a call.
    let most = if store == Store::Postgres { 4 } else { 1 };
    ensure!(failures <= most, "{failures} calls failed");
    Ok(())
}

mod a_server_falls_silent {
    use super::*;

    fn a_server_falls_silent(store: Store) -> Result<()> {
        Runtime::new()?.block_on(falls_silent(store))
    }

    test_each_server!(a_server_falls_silent);
}

mod open_connections_drop_packets {
    use super::*;

    fn open_connections_drop_packets(store: Store) -> Result<()> {
        Runtime::new()?.block_on(drops_packets(store))
    }

    test_each_server!(open_connections_drop_packets);
}
