//! What an operation sends, and what it does with what it finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::{
    AcquireResult, DriftLevel, ErrorCode, ExtendRequest, FirestoreBackend, FirestoreOptions,
    IsLockedRequest, LockBackend as _, LockId, LookupRequest, NotHeld, ReleaseRequest,
    ReleaseResult,
};

use crate::support::{Raw, backend, backend_with, fresh, options, request, shared, take, text};

const MINUTE: Duration = Duration::from_secs(60);

async fn release(backend: &FirestoreBackend, lock_id: LockId) -> Result<ReleaseResult> {
    Ok(backend.release(ReleaseRequest::new(lock_id)).await?)
}

async fn extend(backend: &FirestoreBackend, lock_id: LockId) -> Result<bool> {
    Ok(backend.extend(ExtendRequest::new(lock_id, MINUTE)?).await?.is_extended())
}

#[tokio::test]
async fn every_operation_sends_what_it_says() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    for (remembered, to_extend, to_release) in [(10, 1, 1), (0, 2, 2)] {
        let options = FirestoreOptions::new().with_remembered_locks(remembered);
        let backend = raw.backend(&url, &options);
        let lock = take(&backend, "k", 60_000).await;
        assert_eq!(raw.calls(), 2, "acquire");
        assert!(!backend.acquire(request("k", 60_000)).await?.is_acquired());
        assert_eq!(raw.calls(), 1, "a refused acquire");
        for _ in 0..2 {
            assert!(extend(&backend, lock.lock_id).await?);
            assert_eq!(raw.calls(), to_extend, "extend");
        }
        assert!(backend.is_locked(IsLockedRequest::new("k")?).await?);
        assert_eq!(raw.calls(), 1, "is_locked");
        assert!(backend.lookup(LookupRequest::by_key("k")?).await?.is_some());
        assert_eq!(raw.calls(), 1, "lookup by key");
        assert!(backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.is_some());
        assert_eq!(raw.calls(), 1, "lookup by lock id");
        assert_eq!(release(&backend, lock.lock_id).await?, ReleaseResult::Released);
        assert_eq!(raw.calls(), to_release, "release");
        assert!(!release(&backend, lock.lock_id).await?.is_released());
        assert_eq!(raw.calls(), 1, "a release of nothing");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_remembered_wrongly_is_looked_up() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let (ours, other) = (raw.backend(&url, &FirestoreOptions::new()), backend(&url).await);

    // Extended elsewhere: both of ours work, and the first of them finds out.
    let lock = take(&ours, "k", 60_000).await;
    assert!(extend(&other, lock.lock_id).await?);
    raw.calls();
    assert!(extend(&ours, lock.lock_id).await?);
    assert_eq!(raw.calls(), 3, "a commit in vain, a query, a commit");
    assert!(extend(&ours, lock.lock_id).await?);
    assert_eq!(raw.calls(), 1);

    // Released elsewhere, and taken by somebody: ours touches nothing.
    assert!(release(&other, lock.lock_id).await?.is_released());
    let next = take(&other, "k", 60_000).await;
    assert!(!extend(&ours, lock.lock_id).await?);
    assert_eq!(release(&ours, lock.lock_id).await?, ReleaseResult::NotHeld(NotHeld::NotFound));
    assert!(release(&other, next.lock_id).await?.is_released());

    // Expired as far as we know, and extended elsewhere: it is ours all the same.
    let lock = take(&ours, "k", 100).await;
    assert!(extend(&other, lock.lock_id).await?);
    tokio::time::sleep(Duration::from_millis(1150)).await;
    assert_eq!(release(&ours, lock.lock_id).await?, ReleaseResult::Released);

    // Shortened elsewhere, and over.
    let lock = take(&ours, "k", 60_000).await;
    let shorter = ExtendRequest::new(lock.lock_id, Duration::from_millis(1))?;
    assert!(other.extend(shorter).await?.is_extended());
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(release(&ours, lock.lock_id).await?, ReleaseResult::NotHeld(NotHeld::Expired));
    Ok(())
}

fn copy_of(lock_id: LockId, expires_at: i64) -> [(&'static str, ValueType); 5] {
    [
        ("lockId", text(lock_id.expose())),
        ("expiresAtMs", ValueType::IntegerValue(expires_at)),
        ("acquiredAtMs", ValueType::IntegerValue(1)),
        ("key", text("copy")),
        ("fence", text("000000000000007")),
    ]
}

const LONG_AGO: i64 = 1_000_000;
const FAR: i64 = 9_000_000_000_000;

#[tokio::test]
async fn expired_duplicates_are_deleted() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let backend = backend_with(&url, options().with_remembered_locks(0)).await;
    let lock = take(&backend, "k", 60_000).await;
    raw.set("locks/copy", copy_of(lock.lock_id, LONG_AGO)).await;

    // A lookup only reads.
    let found = backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.unwrap();
    assert_eq!(found.expose().key.expose(), "k");
    assert_eq!(raw.ids("locks").await, ["copy", "k"]);

    assert!(extend(&backend, lock.lock_id).await?);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(raw.ids("locks").await, ["k"]);
    raw.set("locks/copy", copy_of(lock.lock_id, LONG_AGO)).await;
    assert!(release(&backend, lock.lock_id).await?.is_released());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(raw.ids("locks").await.is_empty());

    // All of them expired: none is anybody's.
    raw.set("locks/a", copy_of(lock.lock_id, LONG_AGO)).await;
    raw.set("locks/b", copy_of(lock.lock_id, LONG_AGO)).await;
    let answer = release(&backend, lock.lock_id).await?;
    assert_eq!(answer, ReleaseResult::NotHeld(NotHeld::Expired));
    Ok(())
}

#[tokio::test]
async fn two_live_duplicates_are_left_alone() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let backend = backend_with(&url, options().with_remembered_locks(0)).await;
    let lock = take(&backend, "k", 60_000).await;
    raw.set("locks/copy", copy_of(lock.lock_id, FAR)).await;
    let errors = [
        release(&backend, lock.lock_id).await.unwrap_err().to_string(),
        extend(&backend, lock.lock_id).await.unwrap_err().to_string(),
        backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await.unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.starts_with("Internal: two live locks"), "{error}");
        assert!(!error.contains(lock.lock_id.expose()));
    }
    assert_eq!(raw.ids("locks").await, ["copy", "k"]);
    Ok(())
}

#[tokio::test]
async fn cleanup_deletes_what_is_long_over_and_nothing_else() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let now = i64::try_from(SystemTime::UNIX_EPOCH.elapsed()?.as_millis())?;
    let id = LockId::generate()?;
    raw.set("locks/old", copy_of(id, now - 3100)).await;
    raw.set("locks/recent", copy_of(LockId::generate()?, now - 1500)).await;
    raw.set("fence_counters/fence:old", [("fence", text("000000000000007"))]).await;
    let (plain, tidy) =
        (backend(&url).await, backend_with(&url, options().with_cleanup_in_is_locked(true)).await);
    for key in ["old", "recent"] {
        assert!(!plain.is_locked(IsLockedRequest::new(key)?).await?);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(raw.ids("locks").await, ["old", "recent"]);
    for key in ["old", "recent"] {
        assert!(!tidy.is_locked(IsLockedRequest::new(key)?).await?);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(raw.ids("locks").await, ["recent"]);
    assert_eq!(raw.ids("fence_counters").await, ["fence:old"]);
    assert_eq!(take(&plain, "old", 1).await.fence.get(), 8);
    Ok(())
}

#[tokio::test]
async fn a_corrupt_or_lost_counter_never_lets_a_fence_repeat() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let backend = backend(&url).await;
    raw.set("fence_counters/fence:k", [("fence", ValueType::IntegerValue(7))]).await;
    let error = backend.acquire(request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    assert!(error.message().starts_with("corrupt fence counter"), "{error}");
    assert!(raw.ids("locks").await.is_empty(), "nothing was written");

    // A TTL policy has eaten the counter; the expired lock still knows.
    raw.set("locks/eaten", copy_of(LockId::generate()?, LONG_AGO)).await;
    assert_eq!(take(&backend, "eaten", 1).await.fence.get(), 8);
    Ok(())
}

#[tokio::test]
async fn a_wrong_clock_is_noticed() -> Result<()> {
    let url = fresh();
    let ahead = Arc::new(AtomicI64::new(0));
    let clock = {
        let ahead = Arc::clone(&ahead);
        move || {
            let ahead = ahead.load(Ordering::SeqCst);
            let by = Duration::from_millis(ahead.unsigned_abs());
            if ahead < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
        }
    };
    let loose = backend_with(&url, options().with_clock(clock.clone())).await;
    let strict = backend_with(&url, options().with_clock(clock).with_strict_clock(true)).await;
    assert!(loose.clock_drift().is_none());
    for (millis, level) in [
        (0, DriftLevel::Fine),
        (-350, DriftLevel::Warn),
        (350, DriftLevel::Warn),
        (-800, DriftLevel::Block),
        (800, DriftLevel::Block),
        (0, DriftLevel::Fine),
    ] {
        ahead.store(millis, Ordering::SeqCst);
        // The first answer may still agree with what was known before, if it took long.
        for _ in 0..3 {
            loose.is_locked(IsLockedRequest::new("k")?).await?;
            strict.is_locked(IsLockedRequest::new("k")?).await?;
        }
        let drift = loose.clock_drift().unwrap();
        assert_eq!(drift.level(), level, "{drift:?} at {millis} ms");
        let (lowest, highest) = drift.bounds_millis();
        assert!((lowest - 2..=highest + 2).contains(&millis), "{drift:?} at {millis} ms");

        let key = format!("k{millis}");
        let lock = take(&loose, &key, 60_000).await;
        match strict.acquire(request(&key, 60_000)).await {
            Ok(AcquireResult::Locked) => assert!(level < DriftLevel::Block),
            Ok(AcquireResult::Acquired(_)) => panic!("two holders"),
            Err(error) => {
                assert_eq!(level, DriftLevel::Block);
                assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
            }
        }
        // What is held can be given back whatever the clock.
        assert!(release(&strict, lock.lock_id).await?.is_released());
        let free = strict.acquire(request(&key, 60_000)).await;
        assert_eq!(free.is_err(), level == DriftLevel::Block);
        if let Ok(AcquireResult::Acquired(lock)) = free {
            assert!(release(&strict, lock.lock_id).await?.is_released());
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_setup_is_refused() {
    let host = format!("0.0.0.0:{}", shared().port());
    for (url, options) in [
        ("firestore://p/d/e", options()),
        ("firestore://p", options().with_collection("a/b")),
        ("firestore://p", options().with_fence_collection("")),
        ("firestore://p", options().with_collection("fence_counters")),
        ("firestore://p", options().with_emulator(host.clone())),
        ("firestore://p", options().with_request_timeout(Duration::ZERO)),
        ("firestore://p", options().with_dispose_timeout(Duration::ZERO)),
    ] {
        let error = FirestoreBackend::connect_with(url, options).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
    let remote = options().with_emulator(host).with_remote_emulator(true);
    assert!(FirestoreBackend::connect_with("firestore://p", remote).await.is_ok());
}
