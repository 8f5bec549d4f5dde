//! The facade: choose the store by configuration, and lock in the same way on each.
//!
//! `cargo run -p syncguard --example facade`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use syncguard::diagnostics::get_by_key;
use syncguard::{LockConfig, LockError, Locker, TryAcquired, lock, try_acquire};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::var("SYNCGUARD_STORE").unwrap_or_else(|_| "memory:".to_owned());
    let backend = syncguard::connect(&url).await?;

    // Waits for its turn, works, releases.
    let invoice = LockConfig::new("invoice:2026-11").with_ttl(Duration::from_secs(20));
    let sent = lock(&backend, invoice, async |held| {
        println!("sending the invoice under fence {}", held.fence());
        1
    })
    .await?;
    println!("{sent} invoice sent");

    // Skips the work if another process does it, instead of waiting.
    match try_acquire(&backend, "cleanup").await? {
        TryAcquired::Acquired(guard) => {
            println!("cleaning up; nobody else will for {:.0?}", guard.valid_for());
            guard.release().await.map(drop)?;
        }
        TryAcquired::Busy(_) => println!("another process is cleaning up"),
    }

    // Configured once, used everywhere.
    let webhooks = Locker::new(backend).with_ttl(Duration::from_secs(5));
    webhooks.lock("webhook:evt_1", async |_| println!("event 1 handled")).await?;
    let left = get_by_key(webhooks.backend(), "webhook:evt_1").await?;
    println!("still locked: {}", left.is_some());
    Ok(())
}
