//! How long a trouble may last before a lock of the default TTL is lost: the table of the guide's page `production`.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard::{AutoExtend, LockBackend, LockConfig, acquire};
use syncguard_test_services::proxy::FaultProxy;
use tokio::time::sleep;

/// Locks of 30 s are renewed every 10 s, so a trouble begins right before a renewal.
const BEFORE_A_RENEWAL: Duration = Duration::from_secs(9);
/// With the time before, longer than the lock lives without a renewal.
const AFTERWARDS: Duration = Duration::from_secs(36);

/// Holds the lock `held` while the trouble lasts, and longer than the TTL.
pub(crate) async fn outlives<B: LockBackend>(
    backend: &B,
    name: &str,
    trouble: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    key_outlives(backend, "held", name, trouble).await
}

async fn key_outlives<B: LockBackend>(
    backend: &B,
    key: &str,
    name: &str,
    trouble: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let config = LockConfig::new(key).with_auto_extend(AutoExtend::new());
    let guard = acquire(backend, config).await?;
    sleep(BEFORE_A_RENEWAL).await;
    trouble().await?;
    sleep(AFTERWARDS).await;
    ensure!(!guard.is_lost(), "{name}: the lock is lost");
    guard.release().await?;
    Ok(())
}

/// Troubles between a backend and its server, side by side. `connect` makes a backend that reaches the server at this
/// port; the name is that of the trouble.
pub(crate) async fn outlives_troubles_of_connections<B: LockBackend>(
    server: u16,
    connect: impl AsyncFn(u16, &str) -> Result<B>,
) -> Result<()> {
    let held = async |trouble: Trouble| {
        let proxy = FaultProxy::start(server)?;
        let backend = connect(proxy.port(), trouble.name()).await?;
        let name = trouble.name();
        // The backends may share a server, so each has a key of its own.
        key_outlives(&backend, name, name, async || trouble.happens(&proxy).await).await
    };
    tokio::try_join!(
        held(Trouble::OpenConnectionsAreSilent),
        held(Trouble::AllConnectionsAreSilent),
        held(Trouble::ConnectionsAreRefused),
    )?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Trouble {
    /// Open connections carry nothing any more, as if a firewall had forgotten them; new ones work.
    OpenConnectionsAreSilent,
    /// Nothing is carried for 12 s, and nothing on the old connections afterwards.
    AllConnectionsAreSilent,
    ConnectionsAreRefused,
}

impl Trouble {
    fn name(self) -> &'static str {
        match self {
            Self::OpenConnectionsAreSilent => "open-connections-are-silent",
            Self::AllConnectionsAreSilent => "all-connections-are-silent",
            Self::ConnectionsAreRefused => "connections-are-refused",
        }
    }

    async fn happens(self, proxy: &FaultProxy) -> Result<()> {
        match self {
            Self::OpenConnectionsAreSilent => proxy.silence(),
            Self::AllConnectionsAreSilent => {
                proxy.freeze(true);
                sleep(Duration::from_secs(12)).await;
                proxy.silence();
                proxy.freeze(false);
            }
            Self::ConnectionsAreRefused => {
                proxy.refuse();
                proxy.sever();
                sleep(Duration::from_secs(15)).await;
                return proxy.accept();
            }
        }
        Ok(())
    }
}
