//! The memory of a held permit and of a term.

use anyhow::Result;
use stats_alloc::Region;
use syncguard_bench::Targets;
use syncguard_memory::contract::AcquireRequest;
use syncguard_memory::{
    AutoExtend, CancellationToken, LockBackend as _, LockConfig, MemoryBackend, Ttl, try_acquire,
};
use syncguard_recipes::{Election, Semaphore};
use tokio::task::JoinSet;

use crate::ALLOCATOR;

/// The same number of each, because tables grow in steps.
const LOCKS: usize = 100_000;
const PERMITS: u32 = 1_000;

pub(crate) async fn measure(goals: &mut Targets) -> Result<()> {
    let stored = stored().await?;
    println!("\nBytes, without the {stored} that the memory backend keeps for a lock:");
    println!("  an auto-extended guard: {}", guards().await? - stored);
    let permit = permits().await? - stored;
    goals.at_most("a held permit", permit as f64, 1_536.0);
    let term = terms().await? - stored;
    goals.at_most("a term with its task", term as f64, 4_096.0);
    Ok(())
}

async fn permits() -> Result<usize> {
    let backend = MemoryBackend::new();
    let semaphores = LOCKS / PERMITS as usize;
    let semaphores = (0..semaphores)
        .map(|number| Semaphore::new(backend.clone(), format!("bench:{number:06}"), PERMITS));
    let semaphores = semaphores.collect::<Result<Vec<_>, _>>()?;
    let mut permits = Vec::with_capacity(LOCKS);
    let region = Region::new(ALLOCATOR);
    for semaphore in &semaphores {
        for _ in 0..PERMITS {
            permits.extend(semaphore.try_acquire().await?);
        }
    }
    tokio::task::yield_now().await;
    let heap = bytes(&region);
    let each = permits.first().map_or(0, size_of_val);
    drop(permits);
    settle(&backend).await;
    Ok(heap / LOCKS + each)
}

/// Plain locks that are kept alive as well.
async fn guards() -> Result<usize> {
    let backend = MemoryBackend::new();
    let mut guards = Vec::with_capacity(LOCKS);
    let region = Region::new(ALLOCATOR);
    for number in 0..LOCKS {
        let config =
            LockConfig::new(format!("bench:{number:06}")).with_auto_extend(AutoExtend::new());
        guards.extend(try_acquire(&backend, config).await?.acquired());
    }
    tokio::task::yield_now().await;
    let heap = bytes(&region);
    let each = guards.first().map_or(0, size_of_val);
    drop(guards);
    settle(&backend).await;
    Ok(heap / LOCKS + each)
}

/// Leaders that wait for their end, with what `run` keeps for them.
async fn terms() -> Result<usize> {
    let (backend, shutdown) = (MemoryBackend::new(), CancellationToken::new());
    let mut all = JoinSet::new();
    let region = Region::new(ALLOCATOR);
    for number in 0..LOCKS {
        let election = Election::new(backend.clone(), format!("bench:{number:06}"))
            .with_shutdown(shutdown.clone());
        all.spawn(election.run(async |_| std::future::pending().await));
    }
    while backend.stored_locks() < LOCKS {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    let heap = bytes(&region);
    shutdown.cancel();
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(heap / LOCKS)
}

/// Background releases finish here, so that they do not reduce the next measurement.
async fn settle(backend: &MemoryBackend) {
    while backend.client_state().keys_in_use() > 0
        || backend.client_state().clean_up().waiting() > 0
    {
        tokio::task::yield_now().await;
    }
}

/// The backend's memory for each lock, which is not the permit's.
async fn stored() -> Result<usize> {
    let backend = MemoryBackend::new();
    let region = Region::new(ALLOCATOR);
    for number in 0..LOCKS {
        let request = AcquireRequest::new(format!("bench:{number:06}"), Ttl::DEFAULT)?;
        let _ = backend.acquire(request).await?;
    }
    Ok(bytes(&region) / LOCKS)
}

fn bytes(region: &Region<'_, std::alloc::System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}
