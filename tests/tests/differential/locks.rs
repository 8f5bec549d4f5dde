//! Functions that build on the operations, and arguments that are refused before any request.

use std::time::Duration;

use syncguard::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard::{
    AcquisitionOptions, CancellationToken, DynBackend, ErrorCode, LockBackend as _, LockConfig,
    LockError, LockId, acquire, lock, try_acquire,
};

use crate::differential::stores::Stores;

fn code<T>(result: Result<T, LockError>) -> Option<ErrorCode> {
    result.err().map(|error| error.code())
}

async fn each(check: impl AsyncFn(&DynBackend)) {
    for backend in &Stores::fresh().await.backends {
        check(backend).await;
    }
}

#[tokio::test]
async fn work_under_a_lock_has_its_result_and_leaves_no_lock() {
    each(async |backend| {
        let result = lock(backend, "work", async |held| {
            assert_eq!(held.fence().get(), 1);
            assert!(backend.is_locked(IsLockedRequest::new("work").unwrap()).await.unwrap());
            Err::<(), _>("its own")
        });
        assert_eq!(result.await.unwrap(), Err("its own"));
        assert!(!backend.is_locked(IsLockedRequest::new("work").unwrap()).await.unwrap());
        let guard = acquire(backend, "work").await.unwrap();
        assert_eq!(guard.fence().get(), 2);
        assert!(try_acquire(backend, "work").await.unwrap().is_held());
        let impatient = AcquisitionOptions::new()
            .with_max_retries(2)
            .with_retry_delay(Duration::from_millis(5));
        let config = || LockConfig::new("work").with_acquisition(impatient);
        let result = lock(backend, config(), async |_| ()).await;
        assert_eq!(code(result), Some(ErrorCode::AcquisitionTimeout));
        assert!(guard.release().await.unwrap().is_released());
        assert_eq!(
            try_acquire(backend, "work").await.unwrap().acquired().unwrap().fence().get(),
            3
        );
    })
    .await;
}

#[tokio::test]
async fn a_fired_token_ends_every_operation_before_it_begins() {
    each(async |backend| {
        let fired = CancellationToken::new();
        fired.cancel();
        let token = || fired.clone();
        let held = backend.acquire(AcquireRequest::new("held", Duration::from_secs(60)).unwrap());
        let id = held.await.unwrap().acquired().unwrap().lock_id;
        let acquire = AcquireRequest::new("free", Duration::from_secs(60)).unwrap();
        let extend = ExtendRequest::new(id, Duration::from_secs(60)).unwrap();
        let is_locked = IsLockedRequest::new("held").unwrap();
        let lookup = LookupRequest::by_lock_id(id);
        let release = ReleaseRequest::new(id);
        let codes = [
            code(backend.acquire(acquire.with_cancellation(token())).await),
            code(backend.extend(extend.with_cancellation(token())).await),
            code(backend.is_locked(is_locked.with_cancellation(token())).await),
            code(backend.lookup(lookup.with_cancellation(token())).await),
            code(backend.release(release.clone().with_cancellation(token())).await),
            code(
                lock(backend, LockConfig::new("free").with_cancellation(token()), async |_| ())
                    .await,
            ),
        ];
        let name = backend.capabilities().backend;
        assert_eq!(codes, [Some(ErrorCode::Aborted); 6], "{name}");
        assert!(!backend.is_locked(IsLockedRequest::new("free").unwrap()).await.unwrap(), "{name}");
        assert!(backend.release(release).await.unwrap().is_released(), "{name}");
    })
    .await;
}

#[tokio::test]
async fn a_token_that_fires_later_ends_the_waiting() {
    each(async |backend| {
        let guard = acquire(backend, "held").await.unwrap();
        let token = CancellationToken::new();
        let config = LockConfig::new("held").with_cancellation(token.clone());
        let (waited, ()) = tokio::join!(lock(backend, config, async |_| ()), async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            token.cancel();
        });
        assert_eq!(code(waited), Some(ErrorCode::Aborted));
        assert!(guard.release().await.unwrap().is_released());
        assert!(try_acquire(backend, "held").await.unwrap().is_acquired());
    })
    .await;
}

#[tokio::test]
async fn bad_arguments_reach_no_store() {
    each(async |backend| {
        let long = "x".repeat(513);
        let wide = "é".repeat(257);
        for key in ["", "nul\0", &long, &wide] {
            let codes = [
                code(lock(backend, key, async |_| ()).await),
                code(AcquireRequest::new(key, Duration::from_secs(1))),
                code(IsLockedRequest::new(key)),
                code(LookupRequest::by_key(key)),
            ];
            assert_eq!(codes, [Some(ErrorCode::InvalidArgument); 4], "{key:?}");
        }
        let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        for ttl in [Duration::ZERO, Duration::from_micros(999), century + Duration::from_millis(1)]
        {
            let config = LockConfig::new("key").with_ttl(ttl);
            assert_eq!(
                code(lock(backend, config, async |_| ()).await),
                Some(ErrorCode::InvalidArgument)
            );
        }
        for id in ["", "short", "22 characters, but bad", &"x".repeat(23)] {
            assert_eq!(code(LockId::new(id)), Some(ErrorCode::InvalidArgument));
        }
        // The longest TTL is accepted.
        let config = LockConfig::new("key").with_ttl(century);
        assert!(try_acquire(backend, config).await.unwrap().is_acquired());
    })
    .await;
}

#[tokio::test]
async fn of_many_at_once_one_gets_it() {
    each(async |backend| {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let backend = backend.clone();
            tasks.spawn(async move {
                let request = AcquireRequest::new("contended", Duration::from_secs(60)).unwrap();
                backend.acquire(request).await.unwrap().acquired().map(|lock| lock.fence.get())
            });
        }
        let mut won: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        won.sort_unstable();
        assert_eq!(won, [1], "{}", backend.capabilities().backend);
    })
    .await;
}
