//! How long a trouble may last before a lock of the default TTL is lost. The troubles begin right before a renewal.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_firestore::{AutoExtend, FirestoreOptions, LockConfig, acquire};
use syncguard_test_services::proxy::FaultProxy;
use tokio::time::sleep;

use super::{backend, shared};

/// Locks of 30 s are renewed every 10 s.
const BEFORE_A_RENEWAL: Duration = Duration::from_secs(9);
/// With the time before, longer than the lock lives without a renewal.
const AFTERWARDS: Duration = Duration::from_secs(36);

async fn held(
    name: &'static str,
    trouble: impl AsyncFnOnce(&FaultProxy) -> Result<()>,
) -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let address = format!("127.0.0.1:{}", proxy.port());
    let backend = backend(&address, name, FirestoreOptions::new()).await?;
    let config = LockConfig::new("key").with_auto_extend(AutoExtend::new());
    let guard = acquire(&backend, config).await?;
    sleep(BEFORE_A_RENEWAL).await;
    trouble(&proxy).await?;
    sleep(AFTERWARDS).await;
    ensure!(!guard.is_lost(), "{name}: the lock is lost");
    guard.release().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_thirty_seconds_outlives_these_troubles() -> Result<()> {
    tokio::try_join!(
        held("open-connections-are-silent-for-ever", async |proxy| {
            proxy.silence();
            Ok(())
        }),
        held("all-connections-are-silent-for-12-s", async |proxy| {
            proxy.freeze(true);
            sleep(Duration::from_secs(12)).await;
            proxy.silence();
            proxy.freeze(false);
            Ok(())
        }),
        held("connections-are-refused-for-15-s", async |proxy| {
            proxy.refuse();
            proxy.sever();
            sleep(Duration::from_secs(15)).await;
            proxy.accept()
        }),
    )?;
    Ok(())
}
