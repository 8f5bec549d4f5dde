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

/// Holds a lock with this name while the trouble lasts, and longer than the TTL.
pub(crate) async fn outlives<B: LockBackend>(
    backend: &B,
    name: &str,
    trouble: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let config = LockConfig::new(name).with_auto_extend(AutoExtend::new());
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
    let held = async |name: &str| {
        let proxy = FaultProxy::start(server)?;
        let backend = connect(proxy.port(), name).await?;
        outlives(&backend, name, async || happens(name, &proxy).await).await
    };
    // The backends may share a server, so each has a key of its own.
    tokio::try_join!(
        held("open-connections-are-silent"),
        held("all-connections-are-silent"),
        held("connections-are-refused"),
    )?;
    Ok(())
}

async fn happens(name: &str, proxy: &FaultProxy) -> Result<()> {
    match name {
        // As if a firewall had forgotten them; new ones work.
        "open-connections-are-silent" => proxy.silence(),
        // Nothing is carried for a while, and nothing on the old connections afterwards.
        "all-connections-are-silent" => {
            proxy.freeze(true);
            sleep(Duration::from_secs(12)).await;
            proxy.silence();
            proxy.freeze(false);
        }
        _ => {
            proxy.refuse();
            proxy.sever();
            sleep(Duration::from_secs(15)).await;
            proxy.accept()?;
        }
    }
    Ok(())
}
