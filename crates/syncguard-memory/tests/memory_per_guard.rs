//! Memory per held lock and per waiter: bytes of heap, counted by the allocator.
//!
//! The test is alone in its binary, because it counts every allocation of the process. `cargo xtask bench
//! core` prints the figures (`-- --nocapture`).

use std::alloc::System;
use std::pin::Pin;
use std::task::{Context, Waker};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use syncguard_core::authoring::StorageLimits;
use syncguard_core::authoring::hash_key;
use syncguard_core::authoring::make_storage_key;
use syncguard_core::{
    AutoExtend, Key, LockBackend, LockConfig, LockGuard, Locker, acquire, try_acquire,
};
use syncguard_memory::MemoryBackend;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const GUARDS: usize = 20_000;

/// This is the only test, so that no other test allocates meanwhile.
#[test]
fn guards_and_keys_stay_small() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stored = bytes_of_stored_locks().await;
        let plain = bytes_per_guard(LockConfig::new).await - stored;
        let kept = bytes_per_guard(|key| LockConfig::new(key).with_auto_extend(AutoExtend::new())).await - stored;
        println!("bytes per held guard: {plain}, with auto-extend: {kept} (and {stored} in the memory backend)");
        assert!(plain < 1_024, "{plain} bytes per guard");
        assert!(kept < 1_024, "{kept} bytes per auto-extended guard");
        let backend = MemoryBackend::new();
        let locker = Locker::new(backend.clone());
        let waiters = [
            ("acquire", bytes_per_waiter(&backend, |key| acquire(&backend, key)).await),
            ("Locker::acquire", bytes_per_waiter(&backend, |key| locker.acquire(key)).await),
        ];
        for (call, bytes) in waiters {
            println!("bytes per waiter in {call}: {bytes}");
            assert!(bytes <= 1_024, "{bytes} bytes per waiter in {call}");
        }
    });

    let key = Key::new("payment:0123456789").unwrap();
    assert_eq!(allocations(|| hash_key(key.expose())), 0);
    assert_eq!(
        allocations(|| make_storage_key("app", &key, StorageLimits::new(1000, 26)).unwrap()),
        1
    );
    assert_eq!(allocations(|| Key::new("payment:0123456789").unwrap()), 1);
}

async fn bytes_per_guard<C: Into<LockConfig>>(config: impl Fn(String) -> C) -> usize {
    let backend = MemoryBackend::new();
    let mut guards: Vec<LockGuard<MemoryBackend>> = Vec::with_capacity(GUARDS);
    let region = Region::new(ALLOCATOR);
    for n in 0..GUARDS {
        guards.push(try_acquire(&backend, config(key(n))).await.unwrap().acquired().unwrap());
    }
    // After a first run, the tasks have their timers.
    tokio::task::yield_now().await;
    let heap = live_bytes(&region);
    drop(guards);
    heap / GUARDS + size_of::<LockGuard<MemoryBackend>>()
}

/// Memory of a waiter behind the head: its future and the allocations of the future.
async fn bytes_per_waiter<F: Future>(
    backend: &MemoryBackend,
    wait: impl Fn(&'static str) -> F,
) -> usize {
    const KEY: &str = "waited for";
    const WAITERS: usize = 1_000;
    let held = try_acquire(backend, KEY).await.unwrap().acquired().unwrap();
    let mut waiters: Vec<Pin<Box<F>>> = (0..=WAITERS).map(|_| Box::pin(wait(KEY))).collect();
    let mut context = Context::from_waker(Waker::noop());
    // The first waiter is the head and watches the key.
    assert!(waiters[0].as_mut().poll(&mut context).is_pending());
    let region = Region::new(ALLOCATOR);
    for waiter in &mut waiters[1..] {
        assert!(waiter.as_mut().poll(&mut context).is_pending());
    }
    let heap = live_bytes(&region) / WAITERS;
    assert!(held.release().await.unwrap().is_released());
    size_of::<F>() + heap
}

/// Memory of the backend for each lock, which does not belong to the guard.
async fn bytes_of_stored_locks() -> usize {
    let backend = MemoryBackend::new();
    let region = Region::new(ALLOCATOR);
    for n in 0..GUARDS {
        let request =
            syncguard_core::contract::AcquireRequest::new(key(n), syncguard_core::Ttl::DEFAULT)
                .unwrap();
        assert!(backend.acquire(request).await.unwrap().is_acquired());
    }
    live_bytes(&region) / GUARDS
}

fn live_bytes(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

fn allocations<T>(call: impl FnOnce() -> T) -> usize {
    let region = Region::new(ALLOCATOR);
    let result = call();
    let change = region.change();
    drop(result);
    change.allocations
}

fn key(n: usize) -> String {
    format!("guard:{n:012}")
}
