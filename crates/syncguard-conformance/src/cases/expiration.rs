//! The end of a lock by its TTL.

use std::time::Duration;

use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::{AutoExtend, Key, LockConfig, acquire};

use crate::client::{Client, Granted};
use crate::context::{
    ATTEMPTS, CLOCK_SLACK, Context, HeldLock, LONG, SHORT, fresh_key, in_time, too_slow,
    with_lateness,
};
use crate::outcome::{Checked, Outcome, Stop, ensure, ensure_eq};

pub(crate) async fn a_lock_is_live_within_the_tolerance(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    for _ in 0..ATTEMPTS {
        let (key, lock, watch) = context.in_tolerance(&client, SHORT).await?;
        let meets = meets(&rival, &key, &lock).await?;
        if watch.within_tolerance(SHORT) {
            ensure_eq!(meets, LIVE, "what a look and a rival meet within the tolerance");
            return Ok(());
        }
    }
    Err(too_slow())
}

/// The answers to a client that is not the holder: whether the key is locked, the lookup by key and the lookup by lock id
/// find the lock, and an acquire is refused.
async fn meets(client: &Client, key: &Key, lock: &Granted) -> Checked<[bool; 4]> {
    Ok([
        client.is_locked(key).await?,
        client.by_key(key).await?.is_some(),
        client.by_id(lock.lock_id).await?.is_some(),
        client.acquire(key, LONG).await?.is_none(),
    ])
}

const LIVE: [bool; 4] = [true; 4];

pub(crate) async fn a_lock_is_free_after_the_tolerance(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let (key, old) = context.expired(&client).await?;
    for client in [&client, &rival] {
        client.free(&key).await?;
        ensure_eq!(client.by_id(old.lock_id).await?, None, "the lookup by lock id");
    }
    let next = rival.take(&key, LONG).await?;
    rival.live(&key, next.lock_id).await?;
    Ok(())
}

pub(crate) async fn a_release_within_the_tolerance_succeeds(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    for _ in 0..ATTEMPTS {
        let (key, lock, watch) = context.in_tolerance(&client, SHORT).await?;
        let result = client.release(lock.lock_id).await?;
        if watch.within_tolerance(SHORT) {
            ensure!(result.is_released(), "a release within the tolerance answered {result:?}");
            client.free(&key).await?;
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn an_extend_within_the_tolerance_succeeds(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    for _ in 0..ATTEMPTS {
        let (key, lock, watch) = context.in_tolerance(&client, SHORT).await?;
        let result = client.extend(lock.lock_id, LONG).await?;
        if watch.within_tolerance(SHORT) {
            ensure!(result.is_extended(), "an extend within the tolerance answered {result:?}");
            // Past the end of the lock without the extend.
            context.outlive(Duration::ZERO).await;
            client.live(&key, lock.lock_id).await?;
            rival.refused(&key, LONG).await?;
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn an_extended_lock_has_the_tolerance_again(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    for _ in 0..ATTEMPTS {
        let (key, lock, _) = context.in_tolerance(&client, SHORT).await?;
        let first = context.watch();
        let extended = client.extend(lock.lock_id, SHORT).await?;
        first.enter_tolerance(SHORT).await;
        let meets = meets(&rival, &key, &lock).await?;
        let second = context.watch();
        let again = client.extend(lock.lock_id, SHORT).await?;
        let is_in_time = first.within_tolerance(SHORT);
        second.enter_tolerance(SHORT).await;
        let released = client.release(lock.lock_id).await?;
        if extended.is_extended() && is_in_time && second.within_tolerance(SHORT) {
            ensure_eq!(meets, LIVE, "what a look and a rival meet within the second tolerance");
            ensure!(again.is_extended(), "an extend in the second tolerance answered {again:?}");
            ensure!(released.is_released(), "a release in the third tolerance: {released:?}");
            client.free(&key).await?;
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn an_extend_after_the_tolerance_revives_nothing(
    context: &Context<'_>,
) -> Outcome {
    let (client, rival) = context.pair().await;
    let (key, lock) = context.expired(&client).await?;
    client.not_extended(lock.lock_id, LONG).await?;
    client.free(&key).await?;
    client.powerless(lock.lock_id).await?;
    rival.take(&key, LONG).await?;
    Ok(())
}

pub(crate) async fn an_extend_replaces_what_was_left(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let watch = context.watch();
    let lock = client.take(&fresh_key()?, LONG).await?;
    let mut expires_at = lock.expires_at;
    for _ in 0..3 {
        expires_at = client.extended(lock.lock_id, LONG).await?;
    }
    let gained = expires_at.as_millis().abs_diff(lock.expires_at.as_millis());
    let most = watch.elapsed() + CLOCK_SLACK;
    ensure!(
        u128::from(gained) <= most.as_millis(),
        "extends to {LONG:?} moved the expiry by {gained} ms although only {most:?} passed"
    );
    Ok(())
}

pub(crate) async fn an_extend_can_shorten(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let lock = client.take(&key, 2 * LONG).await?;
    let expires_at = client.extended(lock.lock_id, LONG).await?;
    ensure!(
        expires_at < lock.expires_at,
        "the expiry went from {:?} to {expires_at:?}",
        lock.expires_at
    );
    let seen = client.live(&key, lock.lock_id).await?;
    ensure!(seen.expires_at == expires_at, "the stored expiry is {:?}", seen.expires_at);
    Ok(())
}

pub(crate) async fn a_shortened_lock_ends_early(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock, .. } = context.held().await?;
    client.extended(lock.lock_id, SHORT).await?;
    context.outlive(SHORT).await;
    client.free(&key).await?;
    client.powerless(lock.lock_id).await?;
    rival.take(&key, LONG).await?;
    Ok(())
}

pub(crate) async fn an_extended_lock_outlives_its_first_ttl(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    for _ in 0..ATTEMPTS {
        let key = fresh_key()?;
        let watch = context.watch();
        let lock = client.take(&key, SHORT).await?;
        let result = client.extend(lock.lock_id, LONG).await?;
        if watch.within_tolerance(SHORT) {
            ensure!(result.is_extended(), "an extend of a live lock answered {result:?}");
            context.outlive(SHORT).await;
            // Each record of the lock has to live on, and the index from id to key too.
            client.live(&key, lock.lock_id).await?;
            rival.refused(&key, LONG).await?;
            client.extended(lock.lock_id, LONG).await?;
            client.released(lock.lock_id).await?;
            client.free(&key).await?;
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn the_shortest_ttl_works(context: &Context<'_>) -> Outcome {
    const SHORTEST: Duration = Duration::from_millis(1);
    let (client, rival) = context.pair().await;
    for _ in 0..ATTEMPTS {
        let (key, _, watch) = context.in_tolerance(&client, SHORTEST).await?;
        let granted = rival.acquire(&key, LONG).await?;
        if watch.within_tolerance(SHORTEST) {
            ensure!(granted.is_none(), "the tolerance does not cover a lock of one millisecond");
            context.outlive(SHORTEST).await;
            rival.take(&key, LONG).await?;
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn auto_extend_outlives_the_ttl(context: &Context<'_>) -> Outcome {
    const TTL: Duration = Duration::from_secs(3);
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let config = LockConfig::new(&key).with_ttl(TTL).with_auto_extend(AutoExtend::new());
    let guard = acquire(client.backend(), config).await?;
    let passes = context.pass(TTL + TIME_TOLERANCE + Duration::from_millis(300));
    let ((), lateness) = with_lateness(&rival, passes).await?;
    if guard.is_lost() {
        in_time(TTL / 3, lateness)?;
        return Err(Stop::failed("a guard that renews its lock has lost it"));
    }
    // The two looks are not compared, because a renewal may come between them.
    ensure!(rival.by_key(&key).await?.is_some(), "a lookup by key does not find a renewed lock");
    ensure!(
        rival.by_id(guard.lock_id()).await?.is_some(),
        "a lookup by lock id does not find a renewed lock"
    );
    rival.refused(&key, LONG).await?;
    ensure!(guard.release().await?.is_released(), "a renewed lock could not be released");
    Ok(rival.free(&key).await?)
}
