//! `FLUSHDB` takes the fence counters.

use std::time::Duration;

use anyhow::Result;
use syncguard::redis::RedisBackend;
use syncguard::{LockConfig, acquire};
use syncguard_test_services::redis::RedisServer;

use crate::support::warnings::Warnings;

#[tokio::test]
async fn fences_that_start_again_are_an_error_in_the_log_once() -> Result<()> {
    let server = RedisServer::start()?;
    let backend = RedisBackend::connect(&server.url()).await?;
    let warnings = Warnings::new();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    let turn = async |key: &str| -> Result<u64> {
        let config = LockConfig::new(key).with_ttl(Duration::from_secs(60));
        let guard = acquire(&backend, config).await?;
        let fence = guard.fence().get();
        guard.release().await?;
        Ok(fence)
    };
    for fence in 1..=3 {
        assert_eq!((turn("a").await?, turn("b").await?), (fence, fence));
    }
    assert_eq!(warnings.count(), 0);
    server.cli(&["FLUSHDB"])?;
    for fence in 1..=3 {
        assert_eq!(turn("a").await?, fence);
        assert_eq!(warnings.count(), 1, "for the first fence");
    }
    assert_eq!((turn("b").await?, turn("new").await?), (1, 1));
    assert_eq!(warnings.count(), 2, "for each key");
    Ok(())
}
