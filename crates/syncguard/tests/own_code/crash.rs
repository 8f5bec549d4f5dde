use std::time::Duration;
use syncguard::{LockError, memory::MemoryBackend, try_acquire};

#[tokio::test(start_paused = true)]
async fn a_crashed_worker_blocks_nobody_for_long() -> Result<(), LockError> {
    let backend = MemoryBackend::new();
    let crashed = try_acquire(&backend, "job").await?.acquired().expect("nobody has it");
    std::mem::forget(crashed); // never released

    // The TTL of 30 s is over, the tolerance of 1 s is not.
    tokio::time::advance(Duration::from_millis(30_900)).await;
    assert!(try_acquire(&backend, "job").await?.is_busy());

    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(try_acquire(&backend, "job").await?.is_acquired());
    Ok(())
}
