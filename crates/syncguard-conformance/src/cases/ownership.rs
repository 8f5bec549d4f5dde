//! Which lock id releases and extends which lock.

use std::time::Duration;

use syncguard_core::contract::AcquireRequest;
use syncguard_core::{AutoExtend, LockConfig, LockId, LossReason, NotHeld, acquire};

use crate::context::{
    ATTEMPTS, Context, HeldLock, LONG, SHORT, fresh_key, in_time, too_slow, with_lateness,
};
use crate::outcome::{Outcome, Stop, ensure, ensure_eq};

pub(crate) async fn an_unknown_id_touches_nothing(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key, lock, before, .. } = context.held().await?;
    let unknown = LockId::generate()?;
    for _ in 0..2 {
        let why = client.not_released(unknown).await?;
        ensure_eq!(why, NotHeld::NotFound, "why an unknown id releases nothing");
        let why = client.not_extended(unknown, 2 * LONG).await?;
        ensure_eq!(why, NotHeld::NotFound, "why an unknown id extends nothing");
        ensure!(client.by_id(unknown).await?.is_none(), "the extend made a lock");
    }
    Ok(client.unchanged(&key, lock.lock_id, before).await?)
}

pub(crate) async fn a_lock_is_released_once(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, lock, .. } = context.held().await?;
    client.released(lock.lock_id).await?;
    for client in [&client, &other, &client] {
        let why = client.not_released(lock.lock_id).await?;
        ensure_eq!(why, NotHeld::NotFound, "why a released lock is not held");
    }
    Ok(())
}

pub(crate) async fn a_lock_id_touches_its_own_lock_alone(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let [first, second, third] =
        [context.held().await?, context.held().await?, context.held().await?];
    client.extended(second.lock.lock_id, 2 * LONG).await?;
    for HeldLock { key, lock, before, .. } in [&first, &third] {
        client.unchanged(key, lock.lock_id, *before).await?;
    }
    client.released(second.lock.lock_id).await?;
    for HeldLock { key, lock, before, .. } in [&first, &third] {
        client.unchanged(key, lock.lock_id, *before).await?;
    }
    Ok(())
}

pub(crate) async fn an_old_id_cannot_touch_the_next_lock(context: &Context<'_>) -> Outcome {
    // The key of a lock that has expired is taken by another client.
    let (client, rival) = context.pair().await;
    let (key, old) = context.expired(&client).await?;
    let next = rival.take(&key, LONG).await?;
    let before = rival.live(&key, next.lock_id).await?;
    ensure_eq!(client.by_id(old.lock_id).await?, None, "the lookup by the old lock id");
    let why = client.not_released(old.lock_id).await?;
    ensure_eq!(why, NotHeld::NotFound, "why the old id releases nothing");
    rival.unchanged(&key, next.lock_id, before).await?;
    let why = client.not_extended(old.lock_id, 2 * LONG).await?;
    ensure_eq!(why, NotHeld::NotFound, "why the old id extends nothing");
    Ok(rival.unchanged(&key, next.lock_id, before).await?)
}

pub(crate) async fn a_released_id_cannot_touch_the_next_lock(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock: old, .. } = context.held().await?;
    client.released(old.lock_id).await?;
    client.powerless(old.lock_id).await?;
    let next = rival.take(&key, LONG).await?;
    let before = rival.live(&key, next.lock_id).await?;
    client.powerless(old.lock_id).await?;
    Ok(rival.unchanged(&key, next.lock_id, before).await?)
}

pub(crate) async fn the_same_request_gets_the_same_lock(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, key, lock, before } = context.held().await?;
    // A resent request arrives later, and usually over another connection.
    context.pass(Duration::from_millis(20)).await;
    for client in [&other, &client] {
        for ttl in [LONG, 2 * LONG, SHORT] {
            let again = AcquireRequest::new(&key, ttl)?.with_lock_id(lock.lock_id);
            let again = client.send_granted(again).await?;
            ensure_eq!(again, lock, "the answer to the repeated request");
            client.unchanged(&key, lock.lock_id, before).await?;
        }
    }
    Ok(())
}

pub(crate) async fn the_same_request_within_the_tolerance_gets_the_same_lock(
    context: &Context<'_>,
) -> Outcome {
    let client = context.client().await;
    for _ in 0..ATTEMPTS {
        let request = AcquireRequest::new(fresh_key()?, SHORT)?;
        let watch = context.watch();
        let lock = client.send_granted(request.repeat()).await?;
        watch.enter_tolerance(SHORT).await;
        let again = client.send(request).await?;
        if watch.within_tolerance(SHORT) {
            ensure_eq!(again, Some(lock), "the answer to the repeated request");
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn a_released_request_takes_a_new_lock(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let request = AcquireRequest::new(&key, LONG)?;
    let lock = client.send_granted(request.repeat()).await?;
    client.released(lock.lock_id).await?;
    let again = client.send_granted(request).await?;
    again.follows(&lock)?;
    client.live(&key, again.lock_id).await?;
    client.released(again.lock_id).await?;
    Ok(client.free(&key).await?)
}

pub(crate) async fn an_expired_request_takes_a_new_lock(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let request = AcquireRequest::new(&key, SHORT)?;
    let lock = client.send_granted(request.repeat()).await?;
    context.outlive(SHORT).await;
    let request = AcquireRequest::new(&key, LONG)?.with_lock_id(request.lock_id);
    let again = client.send_granted(request).await?;
    again.follows(&lock)?;
    ensure!(again.expires_at > lock.expires_at, "the expiry stayed {:?}", again.expires_at);
    let seen = client.live(&key, again.lock_id).await?;
    ensure!(seen.acquired_at > lock.expires_at, "the time of acquisition is that of the old lock");
    client.released(again.lock_id).await?;
    Ok(client.free(&key).await?)
}

pub(crate) async fn a_guard_learns_that_its_lock_is_gone(context: &Context<'_>) -> Outcome {
    const TTL: Duration = Duration::from_secs(3);
    let (client, other) = context.pair().await;
    let config = LockConfig::new(fresh_key()?).with_ttl(TTL).with_auto_extend(AutoExtend::new());
    let guard = acquire(client.backend(), config).await?;
    other.released(guard.lock_id()).await?;
    // The first renewal, after a third of the TTL, learns of the loss.
    let lost = tokio::time::timeout(TTL * 2, guard.lost());
    let (Ok(reason), lateness) = with_lateness(&other, lost).await? else {
        return Err(Stop::failed("the loss of a lock was never noticed"));
    };
    if reason == LossReason::Expired {
        in_time(TTL / 3, lateness)?;
    }
    ensure_eq!(reason, LossReason::NotHeld, "the reason of the loss");
    Ok(())
}
