//! How long a trouble may last before a lock of the default TTL is lost: the table of the guide's page `production`. Only
//! `cargo xtask test --full` runs these.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use syncguard::contract::IsLockedRequest;
use syncguard::{AutoExtend, LockBackend, LockConfig, acquire, connect};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::store::Store;
use syncguard_test_services::test_each_server;
use tokio::runtime::Runtime;
use tokio::time::sleep;

use super::{port, url_at};
use crate::differential::stores::part;

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
    // Several connections are open, if it has several, and each may be the next one to be used.
    let ask = || backend.is_locked(IsLockedRequest::new("any").expect("a key"));
    join_all((0..5).map(|_| ask())).await;
    let config = LockConfig::new(name).with_auto_extend(AutoExtend::new());
    let guard = acquire(backend, config).await?;
    sleep(BEFORE_A_RENEWAL).await;
    trouble().await?;
    sleep(AFTERWARDS).await;
    ensure!(!guard.is_lost(), "{name}: the lock is lost");
    guard.release().await?;
    Ok(())
}

/// Troubles between a backend with default timeouts and its server, side by side.
fn a_lock_of_thirty_seconds_outlives_these_troubles(store: Store) -> Result<()> {
    let part = part();
    let held = async |name: &str| {
        let proxy = FaultProxy::start(port(store))?;
        let backend = connect(&url_at(store, proxy.port(), &part)).await?;
        outlives(&backend, name, async || happens(name, &proxy).await).await
    };
    Runtime::new()?.block_on(async {
        tokio::try_join!(
            held("open-connections-are-silent"),
            held("all-connections-are-silent"),
            held("connections-are-refused"),
        )
    })?;
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

test_each_server!(a_lock_of_thirty_seconds_outlives_these_troubles);
