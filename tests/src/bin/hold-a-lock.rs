//! A process that takes a lock, reports it, and holds it until it is killed.
//!
//! `hold-a-lock URL KEY TTL-IN-MS`

#![allow(clippy::print_stdout, reason = "whoever started it waits for the word")]

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard::{AutoExtend, LockConfig, acquire};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("usage: hold-a-lock URL KEY TTL-IN-MS");
    let (url, key, ttl) = (next()?, next()?, Duration::from_millis(next()?.parse()?));
    let backend = syncguard::connect(&url).await?;
    // The lock is renewed, so that it ends only after the process is killed.
    let config = LockConfig::new(key).with_ttl(ttl).with_auto_extend(AutoExtend::new());
    let _guard = acquire(&backend, config).await?;
    println!("HELD");
    std::future::pending().await
}
