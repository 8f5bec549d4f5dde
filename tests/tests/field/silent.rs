//! Addresses of this machine that take connections and never answer.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use syncguard::{AcquisitionOptions, LockBackend, LockConfig, acquire};
use syncguard_test_services::proxy::FaultProxy;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::{MINUTE, failures_before_an_extend, take};

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

/// The open connections of a backend drop packets, over which it holds a lock, and listens for the release of another
/// one. Returns how many calls fail.
pub(crate) async fn drops_packets<B: LockBackend>(
    ours: &B,
    other: &B,
    proxy: &FaultProxy,
    hears: impl Fn() -> bool,
) -> Result<usize> {
    let lock = take(ours, "key").await?;
    let held = acquire(other, LockConfig::new("held").with_ttl(10 * MINUTE)).await?;
    let options = AcquisitionOptions::new().with_timeout(5 * MINUTE).with_retry_delay(MINUTE);
    let config = LockConfig::new("held").with_acquisition(options);
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { acquire(&ours, config).await }
    });
    while !hears() {
        sleep(Duration::from_millis(10)).await;
    }
    proxy.silence();
    let failures = failures_before_an_extend(ours, lock).await?;
    let released = Instant::now();
    held.release().await?;
    waiting.await??.release().await?;
    ensure!(released.elapsed() < 2 * MINUTE, "the waiter heard nothing");
    Ok(failures)
}
