//! The facade, with the store from a URL.

use std::time::Duration;

use syncguard::{CancellationToken, DynBackend, LockConfig, LockError, Locker, lock, try_acquire};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let mut arguments = std::env::args().skip(1);
    let (url, key) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let backend: DynBackend = syncguard::connect(&url).await?;
    let stop = CancellationToken::new();
    let config = LockConfig::new(key.as_str())
        .with_ttl(Duration::from_secs(60))
        .with_cancellation(stop.clone());
    let fence = lock(&backend, config, async |held| held.fence()).await?;
    println!("locked under fence {fence}");

    // The state that a service keeps and passes to its tasks.
    let locker = Locker::new(backend).with_ttl(Duration::from_secs(10));
    let task = tokio::spawn({
        let (locker, key) = (locker.clone(), key.clone());
        async move { locker.lock(key.as_str(), async |held| held.fence()).await }
    });
    println!("then under fence {}", task.await.expect("no panic")?);
    if let Some(guard) = try_acquire(locker.backend(), key.as_str()).await?.acquired() {
        println!("at last under fence {}", guard.fence());
        println!("still ours: {}", guard.release().await?.is_released());
    }
    Ok(())
}
