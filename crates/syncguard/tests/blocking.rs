//! The module `blocking`: a lock is free when the call returns that ends it.

#![cfg(all(feature = "blocking", feature = "memory"))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use syncguard::blocking::{self, LockGuard, Locks};
use syncguard::contract::IsLockedRequest;
use syncguard::memory::TestStore;
use syncguard::shared::ReleaseErrorHandler;
use syncguard::{
    AutoExtend, ErrorCode, LockBackend as _, LockConfig, LockError, ReleaseResult, TryAcquired,
};

/// Far longer than any step takes.
const LONG: Duration = Duration::from_secs(60);

fn over(store: &TestStore) -> Locks {
    let store = store.clone();
    Locks::open(async { Ok(store) }).unwrap()
}

fn stored(store: &TestStore) -> usize {
    store.memory().stored_locks()
}

fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < LONG, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_end_of_a_lock_waits_for_the_release() -> Result<(), LockError> {
    let store = TestStore::new();
    // Long enough to see a call that does not wait.
    store.set_delay(Duration::from_millis(20));
    let locks = over(&store);

    let work = |held: syncguard::Held| {
        assert!(!held.is_lost() && stored(&store) == 1);
        Err::<(), _>(held.fence().get())
    };
    assert_eq!(locks.lock("key", work)?, Err(1));
    assert_eq!(stored(&store), 0, "after the work");

    let panicked = catch_unwind(AssertUnwindSafe(|| locks.lock("key", |_| panic!("as wanted"))));
    assert!(panicked.is_err() && stored(&store) == 0, "after a panic");

    let early = || -> Result<(), LockError> {
        let _guard = locks.acquire("key")?;
        let impatient = LockConfig::new("key").with_wait_up_to(Duration::from_millis(1));
        locks.acquire(impatient)?.release().map(drop)
    };
    assert_eq!(early().unwrap_err().code(), ErrorCode::AcquisitionTimeout);
    assert_eq!(stored(&store), 0, "after an early return");

    for config in
        [LockConfig::new("key"), LockConfig::new("key").with_auto_extend(AutoExtend::new())]
    {
        let guard = locks.try_acquire(config.clone())?.acquired().unwrap();
        let TryAcquired::Busy(contention) = locks.try_acquire(config.clone())? else {
            panic!("busy")
        };
        assert!(contention.free_within.is_some());
        drop(guard);
        assert_eq!(stored(&store), 0, "after a drop");
        let mut guard = locks.acquire(config)?;
        assert!(guard.extend(LONG)?.is_extended() && guard.valid_for() > LONG / 2);
        assert_eq!((guard.release()?, stored(&store)), (ReleaseResult::Released, 0));
    }
    Ok(())
}

#[test]
fn a_lock_is_renewed_and_its_loss_is_noticed_while_the_caller_computes() -> Result<(), LockError> {
    let store = TestStore::new();
    let kept =
        LockConfig::new("key").with_ttl(Duration::from_secs(3)).with_auto_extend(AutoExtend::new());
    let lost = over(&store).lock(kept, |held| {
        let mut valid_for = held.valid_for();
        until("a renewal", || {
            let before = std::mem::replace(&mut valid_for, held.valid_for());
            assert!(!held.is_lost());
            valid_for > before
        });
        assert!(store.lose_lock("key").unwrap());
        until("the loss", || held.is_lost());
        held.valid_for()
    });
    assert_eq!(lost?, Duration::ZERO);
    Ok(())
}

#[test]
fn calls_in_a_runtime_name_the_asynchronous_ones_and_drops_do_not_wait() {
    let store = TestStore::new();
    let (locks, other) = (over(&store), over(&store));
    let (dropped, mut released) = (locks.acquire("a").unwrap(), locks.acquire("b").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let said = |error: LockError| {
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            error.message().split("await ").last().unwrap().to_owned()
        };
        let refused = |result: Result<LockGuard, LockError>| said(result.unwrap_err());
        assert_eq!(said(blocking::connect("memory:").unwrap_err()), "syncguard::connect there");
        assert_eq!(refused(locks.acquire("c")), "syncguard::acquire there");
        assert_eq!(said(locks.try_acquire("c").unwrap_err()), "syncguard::try_acquire there");
        assert_eq!(said(locks.lock("c", |_| ()).unwrap_err()), "syncguard::lock there");
        assert_eq!(said(released.extend(LONG).unwrap_err()), "syncguard::LockGuard::extend there");
        assert_eq!(said(released.release().unwrap_err()), "syncguard::LockGuard::release there");
        let in_blocking =
            tokio::task::spawn_blocking(move || said(other.acquire("c").unwrap_err()));
        assert_eq!(in_blocking.await.unwrap(), "syncguard::acquire there");
        drop(dropped);
        // The last handle.
        drop(locks);
    });
    until("the releases", || stored(&store) == 0);
}

#[test]
fn a_guard_outlives_the_handles_and_the_last_of_all_gives_back_what_is_left() {
    let store = TestStore::new();
    let locks = over(&store);
    let (guard, rest) = (locks.acquire("a").unwrap(), locks.acquire("b").unwrap());
    // An asynchronous guard in the background.
    let left = locks.block_on(syncguard::acquire(locks.backend(), "c")).unwrap().unwrap();
    drop(locks);
    drop(guard);
    assert!(!rest.is_lost() && stored(&store) == 2);
    store.set_delay(Duration::from_millis(20));
    drop(left);
    drop(rest);
    assert_eq!(stored(&store), 0);

    // A thread drops its local variables after its context of tokio.
    thread_local!(static KEPT: std::cell::RefCell<Option<LockGuard>> = const { std::cell::RefCell::new(None) });
    let there = store.clone();
    let kept = thread::spawn(move || {
        KEPT.with(|kept| *kept.borrow_mut() = Some(over(&there).acquire("d").unwrap()));
        assert_eq!(stored(&there), 1);
    });
    kept.join().unwrap();
    assert_eq!(stored(&store), 0);
}

/// The store stops answering: the drop of the guard is bounded, and so is the drop of the last handle.
#[test]
fn a_store_that_is_away_holds_nobody_up() -> Result<(), LockError> {
    let (store, heard) = (TestStore::new(), Arc::new(AtomicU32::new(0)));
    let locks = over(&store);
    let count = Arc::clone(&heard);
    // The handler has the last handle but one.
    let (own, dispose) = (locks.clone(), Duration::from_millis(100));
    let handler = ReleaseErrorHandler::new(move |error, _| {
        assert_eq!(own.acquire("x").unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(error.code(), ErrorCode::NetworkTimeout);
        count.fetch_add(1, Ordering::SeqCst);
    });
    let config =
        LockConfig::new("key").with_dispose_timeout(dispose).with_on_release_error(handler);
    let guard = locks.acquire(config.clone())?;
    store.set_delay(LONG * 60);
    let started = Instant::now();
    drop(guard);
    assert!(started.elapsed() >= dispose && heard.load(Ordering::SeqCst) == 1);
    store.set_down(true);
    store.set_delay(Duration::ZERO);
    assert_eq!(locks.acquire("other").unwrap_err().code(), ErrorCode::ServiceUnavailable);
    store.set_down(false);
    // The release is tried again in the background.
    let request = || IsLockedRequest::new("key");
    until("the release", || {
        !locks.block_on(store.memory().is_locked(request().unwrap())).unwrap().unwrap()
    });
    assert!(started.elapsed() < LONG);
    Ok(())
}
