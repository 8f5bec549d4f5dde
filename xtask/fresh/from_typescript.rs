//! The calls of a TypeScript program, in the translation of the guide's table.

use std::time::Duration;

use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard::diagnostics::{get_by_key, owns};
use syncguard::{
    ErrorCode, ExtendResult, Key, LockBackend, LockConfig, LockError, Locker, ReleaseResult, lock,
};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let mut arguments = std::env::args().skip(1);
    let (url, key) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    // createRedisBackend, createPostgresBackend, createFirestoreBackend
    let backend = syncguard::connect(&url).await?;

    // const result = await backend.acquire({ key, ttlMs: 30_000 }); if (!result.ok) return;
    let request = AcquireRequest::new(key.as_str(), Duration::from_secs(30))?;
    let AcquireResult::Acquired(held) = backend.acquire(request).await? else { return Ok(()) };
    println!("locked under fence {}", held.fence);

    // await backend.isLocked({ key }), backend.lookup({ lockId }), owns(backend, lockId), getByKey(backend, key)
    let is_locked = backend.is_locked(IsLockedRequest::new(key.as_str())?).await?;
    let found = backend.lookup(LookupRequest::by_lock_id(held.lock_id)).await?;
    let is_ours = owns(&backend, held.lock_id).await?;
    let by_key = get_by_key(&backend, key.as_str()).await?;
    assert!(is_locked && is_ours && found.is_some() && by_key.is_some());

    // await backend.extend({ lockId, ttlMs: 60_000 }); await backend.release({ lockId })
    let extended =
        backend.extend(ExtendRequest::new(held.lock_id, Duration::from_secs(60))?).await?;
    assert!(matches!(extended, ExtendResult::Extended { .. }));
    assert_eq!(backend.release(ReleaseRequest::new(held.lock_id)).await?, ReleaseResult::Released);

    // await lock(async () => work(), { key, ttlMs, acquisition: { timeoutMs } })
    let config = LockConfig::new(key.as_str())
        .with_ttl(Duration::from_secs(10))
        .with_wait_up_to(Duration::from_secs(1));
    lock(&backend, config, async |_held| {}).await?;

    // const withLock = createLock(backend); await withLock(work, { key })
    let with_lock = Locker::new(backend);
    with_lock.lock(key.as_str(), async |_held| {}).await?;

    // catch (error) { if (error instanceof LockError && error.code === "InvalidArgument") … }
    let error = Key::new("").unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    Ok(())
}
