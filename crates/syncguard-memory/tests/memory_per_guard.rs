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
use syncguard_core::contract::{AcquireRequest, ReleaseRequest};
use syncguard_core::{
    AutoExtend, Key, LockBackend, LockConfig, LockGuard, Locker, Ttl, acquire, try_acquire,
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
    let (guarded, bare) = runtime.block_on(allocations_per_cycle(&key));
    println!("allocations of acquire and release: {guarded}, {bare} of them in the memory backend");
    assert!(guarded <= bare + 3, "{guarded} allocations, {bare} of them in the backend");
    assert_eq!(allocations(|| hash_key(key.expose())), 0);
    assert_eq!(
        allocations(
            || make_storage_key("app", &key, StorageLimits { limit: 1000, reserve: 26 }).unwrap()
        ),
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

/// An acquire and a release with a guard, and by requests to the backend alone.
async fn allocations_per_cycle(key: &Key) -> (usize, usize) {
    let backend = MemoryBackend::new();
    let mut counted = (0, 0);
    // The first round fills the tables that stay.
    for _ in 0..3 {
        let region = Region::new(ALLOCATOR);
        let guard = acquire(&backend, LockConfig::new(key.clone())).await.unwrap();
        assert!(guard.release().await.unwrap().is_released());
        counted.0 = region.change().allocations;
        let region = Region::new(ALLOCATOR);
        let request = AcquireRequest::new(key.clone(), Ttl::DEFAULT).unwrap();
        let release = ReleaseRequest::new(request.lock_id).with_key_hint(key.clone());
        assert!(backend.acquire(request).await.unwrap().is_acquired());
        assert!(backend.release(release).await.unwrap().is_released());
        counted.1 = region.change().allocations;
    }
    counted
}

/// Memory of the backend for each lock, which does not belong to the guard.
async fn bytes_of_stored_locks() -> usize {
    let backend = MemoryBackend::new();
    let region = Region::new(ALLOCATOR);
    for n in 0..GUARDS {
        let request = AcquireRequest::new(key(n), Ttl::DEFAULT).unwrap();
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
