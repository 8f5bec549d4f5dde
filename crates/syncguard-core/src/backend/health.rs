//! The part of a health check that is the same for each backend.

use std::time::Duration;

use super::lock_backend::LockBackend;
use crate::contract::health::Health;
use crate::contract::request::{IsLockedRequest, WatchRequest};
use crate::contract::signal_status::SignalStatus;
use crate::rt;
use crate::value::{Key, LockError};

/// The key that health checks ask for, and that `syncguard doctor` locks.
const KEY: &str = "syncguard-doctor";

/// The longest time to open the watch. A backend has shorter limits of its own, after which it knows whether signals fail.
const WATCH: Duration = Duration::from_secs(15);

/// For authors of backends: the beginning of [`LockBackend::health`]. Asks whether a key is locked, and begins a watch.
///
/// `signals` gives the state of signals while the watch lives; its argument says whether there is a watch.
///
/// # Cancel safety
///
/// Safe: it only reads.
pub async fn basic_health<B: LockBackend>(
    backend: &B,
    signals: impl FnOnce(bool) -> SignalStatus + Send,
) -> Health {
    match ask(backend).await {
        Ok(key) => {
            let watch = rt::within(WATCH, backend.watch(WatchRequest::new(key))).await.flatten();
            Health::new(Ok(()), signals(watch.is_some()))
        }
        Err(error) => Health::new(Err(error), SignalStatus::Unused),
    }
}

async fn ask<B: LockBackend>(backend: &B) -> Result<Key, LockError> {
    let key = Key::new(KEY)?;
    backend.is_locked(IsLockedRequest::new(key.clone())?).await?;
    Ok(key)
}
