//! The cost of the library over the bookkeeping itself. `cargo xtask bench core`
//!
//! Every line is 1 000 cycles on one key, or 1 000 calls; allocations are counted beside the time.

#![allow(clippy::wildcard_imports, reason = "the modules only group the output")]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use syncguard_core::authoring::hash_key;
use syncguard_core::authoring::{StorageKey, StorageLimits, make_fence_key, make_storage_key};
use syncguard_core::contract::{AcquireRequest, ReleaseRequest};
use syncguard_core::{
    AutoExtend, DynBackend, Key, LockBackend, LockConfig, LockId, Ttl, lock, try_acquire,
};
use syncguard_memory::MemoryBackend;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const CYCLES: usize = 1_000;
const KEY: &str = "payment:0123456789";

fn main() {
    divan::main();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn cycles(bencher: Bencher<'_, '_>, mut cycle: impl AsyncFnMut()) {
    let runtime = runtime();
    bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| {
        runtime.block_on(async {
            for _ in 0..CYCLES {
                cycle().await;
            }
        });
    });
}

mod cycle {
    use super::*;

    /// The same bookkeeping by hand: a lock and its counter in a map behind tokio's mutex.
    #[divan::bench]
    fn a_bare_mutex_and_map(bencher: Bencher<'_, '_>) {
        #[derive(Default)]
        struct Store {
            locks: HashMap<String, (LockId, Instant, u64)>,
            keys: HashMap<LockId, String>,
            fences: HashMap<String, u64>,
        }
        let store = Arc::new(Mutex::new(Store::default()));
        cycles(bencher, async || {
            let lock_id = LockId::generate().unwrap();
            let mut held = store.lock().await;
            let fence = held.fences.entry(KEY.to_owned()).or_default();
            *fence += 1;
            let fence = *fence;
            held.locks
                .insert(KEY.to_owned(), (lock_id, Instant::now() + Duration::from_secs(30), fence));
            held.keys.insert(lock_id, KEY.to_owned());
            drop(held);
            let mut held = store.lock().await;
            if let Some(key) = held.keys.remove(&lock_id) {
                black_box(held.locks.remove(&key).filter(|(_, until, _)| *until > Instant::now()));
            }
        });
    }

    #[divan::bench]
    fn b_memory_backend(bencher: Bencher<'_, '_>) {
        acquire_and_release(bencher, &MemoryBackend::new());
    }

    #[divan::bench]
    fn c_dyn_backend(bencher: Bencher<'_, '_>) {
        acquire_and_release(bencher, &DynBackend::new(MemoryBackend::new()));
    }

    #[divan::bench]
    fn d_guard(bencher: Bencher<'_, '_>) {
        let backend = MemoryBackend::new();
        cycles(bencher, async || {
            let guard = try_acquire(&backend, KEY).await.unwrap().acquired().unwrap();
            let _ = black_box(guard.release().await.unwrap());
        });
    }

    #[divan::bench]
    fn e_lock(bencher: Bencher<'_, '_>) {
        let backend = MemoryBackend::new();
        cycles(bencher, async || {
            black_box(lock(&backend, KEY, async |held| held.fence()).await.unwrap());
        });
    }

    #[divan::bench]
    fn f_lock_with_auto_extend(bencher: Bencher<'_, '_>) {
        let backend = MemoryBackend::new();
        let config = LockConfig::new(KEY).with_auto_extend(AutoExtend::new());
        cycles(bencher, async || {
            black_box(lock(&backend, config.clone(), async |held| held.fence()).await.unwrap());
        });
    }

    fn acquire_and_release(bencher: Bencher<'_, '_>, backend: &impl LockBackend) {
        let key = Key::new(KEY).unwrap();
        cycles(bencher, async || {
            let request = AcquireRequest::new(&key, Ttl::DEFAULT).unwrap();
            let lock = backend.acquire(request).await.unwrap().acquired().unwrap();
            let _ = black_box(backend.release(ReleaseRequest::new(lock.lock_id)).await.unwrap());
        });
    }
}

mod keys {
    use super::*;

    fn calls<T>(bencher: Bencher<'_, '_>, call: impl Fn() -> T) {
        bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| {
            for _ in 0..CYCLES {
                black_box(call());
            }
        });
    }

    #[divan::bench]
    fn key_ascii(bencher: Bencher<'_, '_>) {
        calls(bencher, || Key::new(black_box(KEY)).unwrap());
    }

    #[divan::bench]
    fn hash_ascii(bencher: Bencher<'_, '_>) {
        calls(bencher, || hash_key(black_box(KEY)));
    }

    #[divan::bench]
    fn storage_key_ascii(bencher: Bencher<'_, '_>) {
        let (key, limits) = (Key::new(KEY).unwrap(), StorageLimits::new(1000, 26));
        calls(bencher, || make_storage_key("app", black_box(&key), limits).unwrap());
    }

    #[divan::bench]
    fn storage_key_hashed(bencher: Bencher<'_, '_>) {
        let limits = StorageLimits::new(40, 0);
        let long = Key::new("x".repeat(200)).unwrap();
        calls(bencher, || make_storage_key("app", black_box(&long), limits).unwrap());
    }

    #[divan::bench]
    fn fence_key_ascii(bencher: Bencher<'_, '_>) {
        let (key, limits) = (StorageKey::new(KEY.to_owned()), StorageLimits::new(1000, 26));
        calls(bencher, || make_fence_key("app", black_box(&key), limits).unwrap());
    }

    #[divan::bench]
    fn lock_id(bencher: Bencher<'_, '_>) {
        calls(bencher, || LockId::generate().unwrap());
    }
}
