//! A program that depends on one backend crate only.
//!
//! `cargo run -p syncguard-memory --example one_backend`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use syncguard_memory::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_memory::{LockBackend, LockError, MemoryBackend, lock};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), LockError> {
    let backend = MemoryBackend::new();

    // The usual way: run work under a lock.
    let total = lock(&backend, "job:daily-report", async |held| {
        println!("reporting under fence {}", held.fence());
        40 + 2
    })
    .await?;
    println!("the work's result: {total}");

    // The operations below `lock`. Contention is an answer, not an error.
    let request = AcquireRequest::new("payment:123", Duration::from_secs(30))?;
    match backend.acquire(request).await? {
        AcquireResult::Acquired(held) => {
            println!("charging under fence {}", held.fence);
            let released = backend.release(ReleaseRequest::new(held.lock_id)).await?;
            println!("released: {}", released.is_released());
        }
        _ => println!("someone else is charging"),
    }
    Ok(())
}
