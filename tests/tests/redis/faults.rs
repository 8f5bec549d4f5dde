//! Faults of the network and the server.

use anyhow::Result;
use syncguard_redis::contract::IsLockedRequest;
use syncguard_redis::{LockBackend as _, RedisBackend};
use syncguard_test_services::proxy::FaultProxy;

use crate::redis::signals::until;
use crate::redis::support::{patient, shared};

#[tokio::test]
async fn each_lost_connection_is_opened_again_while_another_one_works() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let backend = RedisBackend::connect_with(&url, patient().with_connections(3)).await?;
    let before = proxy.counters().connections;
    proxy.sever();
    until("all are open again", async || {
        if let Err(error) = backend.is_locked(IsLockedRequest::new("k").unwrap()).await {
            assert!(error.is_retryable(), "{error:?}");
        }
        proxy.counters().connections - before >= 3
    })
    .await;
    Ok(())
}
