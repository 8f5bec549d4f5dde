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

/// Holds a lock while the trouble lasts, and longer than the TTL.
pub(crate) async fn outlives<B: LockBackend>(
    backend: &B,
    name: &str,
    trouble: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let config = LockConfig::new("held").with_auto_extend(AutoExtend::new());
    let guard = acquire(backend, config).await?;
    sleep(BEFORE_A_RENEWAL).await;
    trouble().await?;
    sleep(AFTERWARDS).await;
    ensure!(!guard.is_lost(), "{name}: the lock is lost");
    guard.release().await?;
    Ok(())
}

/// Open connections carry nothing any more, as if a firewall had forgotten them; new ones work.
pub(crate) async fn open_connections_are_silent(proxy: &FaultProxy) -> Result<()> {
    proxy.silence();
    Ok(())
}

/// Nothing is carried for 12 s, and nothing on the old connections afterwards.
pub(crate) async fn all_connections_are_silent(proxy: &FaultProxy) -> Result<()> {
    proxy.freeze(true);
    sleep(Duration::from_secs(12)).await;
    proxy.silence();
    proxy.freeze(false);
    Ok(())
}

pub(crate) async fn connections_are_refused(proxy: &FaultProxy) -> Result<()> {
    proxy.refuse();
    proxy.sever();
    sleep(Duration::from_secs(15)).await;
    proxy.accept()
}
