//! Acquire, extend and release.

use std::time::Duration;

use syncguard_core::{LockConfig, Ttl, acquire, lock};

use crate::client::Seen;
use crate::context::{CLOCK_SLACK, Context, HeldLock, LONG, fresh_key};
use crate::outcome::{Outcome, ensure, ensure_eq};

pub(crate) async fn acquire_takes_a_free_key(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
    client.live(&key, lock.lock_id).await?;
    Ok(())
}

pub(crate) async fn release_frees_the_key(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock, .. } = context.held().await?;
    client.released(lock.lock_id).await?;
    for client in [&client, &rival] {
        client.free(&key).await?;
        ensure_eq!(client.by_id(lock.lock_id).await?, None, "the lookup by lock id");
    }
    rival.take(&key, LONG).await?;
    Ok(())
}

pub(crate) async fn extend_prolongs_the_lock(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key, lock, before, .. } = context.held().await?;
    ensure_eq!(lock.expires_at, before.expires_at, "the expiry that acquire reports");
    let expires_at = client.extended(lock.lock_id, 2 * LONG).await?;
    ensure!(expires_at > lock.expires_at, "the expiry went from {lock:?} to {expires_at:?}");
    let after = client.live(&key, lock.lock_id).await?;
    ensure_eq!(after, Seen { expires_at, ..before }, "the lock after its extend");
    Ok(())
}

pub(crate) async fn is_locked_follows_the_lock(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    ensure!(!client.is_locked(&key).await?, "a key that was never locked is locked");
    let lock = client.take(&key, LONG).await?;
    ensure!(client.is_locked(&key).await?, "a held key is not locked");
    client.released(lock.lock_id).await?;
    ensure!(!client.is_locked(&key).await?, "a released key is locked");
    Ok(())
}

pub(crate) async fn the_expiry_is_the_stores_time_plus_the_ttl(context: &Context<'_>) -> Outcome {
    const PASSED: Duration = Duration::from_millis(300);
    let client = context.client().await;
    let (first, second) = (fresh_key()?, fresh_key()?);
    let watch = context.watch();
    let earlier = client.take(&first, LONG).await?;
    context.pass(PASSED).await;
    let later = client.take(&second, 2 * LONG).await?;
    // Only the store knows its time, but that time must have moved on like every clock.
    let moved = Duration::from_millis(
        later.expires_at.as_millis().saturating_sub(earlier.expires_at.as_millis()),
    )
    .saturating_sub(LONG);
    let least = PASSED.saturating_sub(CLOCK_SLACK);
    let most = watch.elapsed() + CLOCK_SLACK;
    ensure!(
        (least..=most).contains(&moved),
        "by the expiries the store's time moved {moved:?} while {least:?} to {most:?} passed"
    );
    Ok(())
}

pub(crate) async fn a_lock_lives_for_exactly_its_ttl(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    for millis in [60_000, 60_001, 61_234] {
        let key = fresh_key()?;
        let lock = client.take(&key, Duration::from_millis(millis)).await?;
        let seen = client.live(&key, lock.lock_id).await?;
        let lives = seen.expires_at.as_millis().saturating_sub(seen.acquired_at.as_millis());
        ensure_eq!(lives, millis, "milliseconds from acquisition to expiry");
    }
    Ok(())
}

pub(crate) async fn the_longest_ttl_works(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let lock = client.take(&key, Ttl::MAX.as_duration()).await?;
    let taken = client.live(&key, lock.lock_id).await;
    let expires_at = client.extended(lock.lock_id, Ttl::MAX.as_duration()).await;
    let extended = client.live(&key, lock.lock_id).await;
    // Releases the lock in any case, so that the key is not held for a hundred years.
    client.released(lock.lock_id).await?;
    let (taken, expires_at, extended) = (taken?, expires_at?, extended?);
    let lives = taken.expires_at.as_millis().saturating_sub(taken.acquired_at.as_millis());
    ensure_eq!(lives, Ttl::MAX.as_millis(), "milliseconds from acquisition to expiry");
    ensure_eq!(lock.expires_at, taken.expires_at, "the expiry that acquire reports");
    ensure_eq!(expires_at, extended.expires_at, "the expiry that extend reports");
    ensure!(
        expires_at >= lock.expires_at,
        "an extend to 100 years moved the expiry from {:?} to {expires_at:?}",
        lock.expires_at
    );
    Ok(())
}

pub(crate) async fn clones_share_the_store(context: &Context<'_>) -> Outcome {
    let [original, clone] = context.clones().await;
    let key = fresh_key()?;
    let lock = original.take(&key, LONG).await?;
    clone.refused(&key, LONG).await?;
    clone.extended(lock.lock_id, LONG).await?;
    drop(original);
    clone.live(&key, lock.lock_id).await?;
    clone.released(lock.lock_id).await?;
    Ok(clone.free(&key).await?)
}

pub(crate) async fn connections_share_the_store(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, key, lock, .. } = context.held().await?;
    // The lock id alone is enough, on a connection that never used the key.
    other.extended(lock.lock_id, LONG).await?;
    drop(client);
    other.live(&key, lock.lock_id).await?;
    context.client().await.released(lock.lock_id).await?;
    Ok(other.free(&key).await?)
}

pub(crate) async fn work_runs_under_the_lock(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let seen = lock(client.backend(), &key, async |held| {
        rival.refused(&key, LONG).await?;
        rival.live(&key, held.lock_id()).await
    })
    .await??;
    ensure_eq!(seen.key, key.hash_id(), "the hash of the locked key");
    rival.free(&key).await?;
    rival.take(&key, LONG).await?;
    Ok(())
}

pub(crate) async fn a_guard_extends_and_releases(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let mut guard = acquire(client.backend(), LockConfig::new(&key).with_ttl(LONG)).await?;
    let lock_id = guard.lock_id();
    let before = rival.live(&key, lock_id).await?;
    ensure_eq!(guard.expires_at(), before.expires_at, "the guard's expiry");
    ensure!(guard.extend(2 * LONG).await?.is_extended(), "a live guard could not be extended");
    let after = rival.live(&key, lock_id).await?;
    ensure_eq!(guard.expires_at(), after.expires_at, "the guard's expiry after its extend");
    ensure!(guard.release().await?.is_released(), "a live guard could not be released");
    rival.free(&key).await?;
    Ok(rival.powerless(lock_id).await?)
}

pub(crate) async fn a_dropped_guard_frees_the_key(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    drop(acquire(client.backend(), LockConfig::new(&key).with_ttl(LONG)).await?);
    Ok(context.soon_free(&rival, &key).await?)
}
