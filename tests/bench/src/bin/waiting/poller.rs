//! A client that only polls: the TypeScript library, by its records and its pauses.

use std::time::Duration;

use syncguard_bench::{Lock, clock};
use syncguard_core::authoring::pause::jittered;
use syncguard_core::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_core::{DynBackend, LockBackend as _, LockId};

const TTL: Duration = Duration::from_secs(30);

/// How often the client looks again. The pauses double from 100 ms on, half of each is random, and 5 s are the limit.
const RETRIES: u32 = 10;
const LIMIT: Duration = Duration::from_secs(5);

/// A backend without the queue around it, whose records have no holder and whose releases signal nothing.
#[derive(Clone)]
pub(crate) struct Poller(DynBackend);

impl Poller {
    pub(crate) async fn new(url: &str) -> anyhow::Result<Self> {
        let signals = if url.starts_with("postgres:") { "&signals=false" } else { "" };
        Ok(Self(syncguard::connect(&format!("{url}?holder={signals}")).await?))
    }
}

impl Lock for Poller {
    type Guard = LockId;

    async fn acquire(&self, key: &str) -> Result<Self::Guard, String> {
        let began = clock::now();
        for retry in 0..=RETRIES {
            let request = AcquireRequest::new(key, TTL).map_err(|error| error.to_string())?;
            match self.0.acquire(request).await {
                Ok(AcquireResult::Acquired(lock)) => return Ok(lock.lock_id),
                Ok(_) => {}
                Err(error) => return Err(error.code().to_string()),
            }
            let left = LIMIT.saturating_sub(Duration::from_nanos(clock::now() - began));
            let pause = jittered(Duration::from_millis(100 << retry).min(LIMIT));
            tokio::time::sleep(pause.min(left)).await;
            if left <= pause {
                break;
            }
        }
        Err("AcquisitionTimeout".to_owned())
    }

    async fn release(&self, lock_id: LockId) -> Result<(), String> {
        match self.0.release(ReleaseRequest::new(lock_id)).await {
            Ok(released) if released.is_released() => Ok(()),
            Ok(_) => Err("release: the lock was gone".to_owned()),
            Err(error) => Err(format!("release: {}", error.code())),
        }
    }
}
