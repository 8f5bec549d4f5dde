//! Removal of records of locks that are over.

use std::time::Duration;

use syncguard_core::Fence;

use crate::context::{Context, LONG, SHORT, fresh_key};
use crate::outcome::{Outcome, ensure, ensure_eq};
use crate::tasks::{all, pause};

/// How long after a lock's end its record has to stay: a renewal that is late by another client's clock must not lose
/// against the clean-up.
const GUARD: Duration = Duration::from_millis(2100);

pub(crate) async fn a_release_leaves_nothing_behind(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let lock = client.take(&key, 2 * LONG).await?;
    let before = client.live(&key, lock.lock_id).await?;
    client.released(lock.lock_id).await?;
    context.pass(Duration::from_millis(20)).await;
    let next = rival.take(&key, LONG).await?;
    let after = rival.live(&key, next.lock_id).await?;
    ensure!(after.acquired_at > before.acquired_at, "the time of acquisition was inherited");
    ensure!(after.expires_at < before.expires_at, "the expiry was inherited");
    ensure_eq!(after.fence, lock.fence.map(Fence::next).transpose()?, "the next fence");
    client.powerless(lock.lock_id).await?;
    Ok(rival.unchanged(&key, next.lock_id, after).await?)
}

pub(crate) async fn an_expiry_leaves_nothing_behind(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let (key, old) = context.expired(&client).await?;
    let next = rival.take(&key, LONG).await?;
    let seen = rival.live(&key, next.lock_id).await?;
    ensure!(seen.acquired_at > old.expires_at, "the time of acquisition was inherited");
    rival.released(next.lock_id).await?;
    for client in [&client, &rival] {
        client.free(&key).await?;
        client.powerless(old.lock_id).await?;
        client.powerless(next.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_counter_outlives_the_cleanup(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    for _ in 0..3 {
        let lock = client.take(&key, LONG).await?;
        client.released(lock.lock_id).await?;
    }
    let old = client.take(&key, SHORT).await?;
    context.outlive(SHORT + GUARD).await;
    for client in [&client, &other, &client] {
        client.free(&key).await?;
        client.powerless(old.lock_id).await?;
        // The removal may run in the background.
        pause(20).await;
    }
    let next = other.take(&key, LONG).await?;
    next.follows(&old)
}

pub(crate) async fn asking_about_an_expired_lock_spares_the_next_one(
    context: &Context<'_>,
) -> Outcome {
    const ASKERS: usize = 4;
    let clients = context.clients(2).await;
    let mut keys = Vec::new();
    for _ in 0..8 {
        let key = fresh_key()?;
        clients[0].take(&key, SHORT).await?;
        keys.push(key);
    }
    context.outlive(SHORT + GUARD).await;
    for key in keys {
        // Without a barrier, so that the askers come first.
        let tasks = (0..=ASKERS).map(|index| {
            let (client, key) = (clients[index % 2].clone(), key.clone());
            async move {
                if index < ASKERS {
                    client.is_locked(&key).await.map(|_| None)
                } else {
                    client.take(&key, LONG).await.map(Some)
                }
            }
        });
        for next in all(tasks).await?.into_iter().flatten() {
            pause(10).await;
            let seen = clients[1].live(&key, next.lock_id).await?;
            ensure_eq!(seen.expires_at, next.expires_at, "the expiry of the next lock");
            clients[0].released(next.lock_id).await?;
        }
    }
    Ok(())
}

pub(crate) async fn expired_locks_do_not_disturb_live_ones(context: &Context<'_>) -> Outcome {
    const LIVE: usize = 10;
    const EXPIRED: usize = 60;
    let (client, other) = context.pair().await;
    let mut live = Vec::new();
    for _ in 0..LIVE {
        let key = fresh_key()?;
        let lock = client.take(&key, LONG).await?;
        live.push((client.live(&key, lock.lock_id).await?, key, lock.lock_id));
    }
    let mut expired = Vec::new();
    for _ in 0..EXPIRED {
        let key = fresh_key()?;
        expired.push((client.take(&key, SHORT).await?, key));
    }
    context.outlive(SHORT + GUARD).await;
    for (old, key) in &expired {
        // Each of these operations may trigger the store's clean-up.
        client.take(&fresh_key()?, LONG).await?;
        client.free(key).await?;
        client.not_extended(old.lock_id, LONG).await?;
    }
    for (before, key, lock_id) in live {
        other.unchanged(&key, lock_id, before).await?;
        client.released(lock_id).await?;
    }
    for (old, key) in expired {
        let next = other.take(&key, LONG).await?;
        next.follows(&old)?;
    }
    Ok(())
}
