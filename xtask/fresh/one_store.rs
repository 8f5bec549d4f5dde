//! A single backend crate.

use std::time::Duration;

use CRATE::{BACKEND, CancellationToken, LockConfig, LockError, lock};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let mut arguments = std::env::args().skip(1);
    let (url, key) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let backend = BACKEND::connect(&url).await?;
    let stop = CancellationToken::new();
    let config = LockConfig::new(key.as_str())
        .with_ttl(Duration::from_secs(60))
        .with_cancellation(stop.clone());
    let fence = lock(&backend, config, async |held| held.fence()).await?;
    println!("locked under fence {fence}");
    Ok(())
}
