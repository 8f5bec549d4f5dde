//! Fired tokens and dropped futures.

use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_core::{
    CancellationToken, ErrorCode, Fence, Key, LockBackend, LockConfig, LockError, LockId, acquire,
};

use crate::client::Client;
use crate::context::{CLOCK_SLACK, Context, HeldLock, LONG, SOON, fresh_key, polling_every};
use crate::outcome::{Checked, Outcome, Stop, ensure, ensure_eq};
use crate::tasks::{pause, poll_times};

/// How often an operation is polled before it is given up. Most operations need fewer polls to end, so they were
/// interrupted at every point.
const POLLS: usize = 8;

pub(crate) async fn a_fired_token_stops_an_acquire(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let request = AcquireRequest::new(&key, LONG)?.with_cancellation(fired());
    let lock_id = request.lock_id;
    aborted("acquire", client.backend().acquire(request).await)?;
    client.free(&key).await?;
    client.powerless(lock_id).await?;
    let lock = client.take(&key, LONG).await?;
    let first = if client.fences() { Some(Fence::new(1)?) } else { None };
    ensure_eq!(lock.fence, first, "the fence of the next acquire");
    Ok(())
}

pub(crate) async fn a_fired_token_stops_a_release(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key, lock, before, .. } = context.held().await?;
    let request = ReleaseRequest::new(lock.lock_id).with_cancellation(fired());
    aborted("release", client.backend().release(request).await)?;
    client.unchanged(&key, lock.lock_id, before).await?;
    Ok(client.released(lock.lock_id).await?)
}

pub(crate) async fn a_fired_token_stops_an_extend(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key, lock, before, .. } = context.held().await?;
    let request = ExtendRequest::new(lock.lock_id, 2 * LONG)?.with_cancellation(fired());
    aborted("extend", client.backend().extend(request).await)?;
    Ok(client.unchanged(&key, lock.lock_id, before).await?)
}

pub(crate) async fn a_fired_token_stops_a_look(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key: held, lock, before, .. } = context.held().await?;
    for key in [&held, &fresh_key()?] {
        let request = IsLockedRequest::new(key)?.with_cancellation(fired());
        aborted("is_locked", client.backend().is_locked(request).await)?;
    }
    for request in [LookupRequest::by_key(&held)?, LookupRequest::by_lock_id(lock.lock_id)] {
        let request = request.with_cancellation(fired());
        aborted("lookup", client.backend().lookup(request).await)?;
    }
    Ok(client.unchanged(&held, lock.lock_id, before).await?)
}

pub(crate) async fn a_quiet_token_changes_nothing(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let backend = client.backend();
    let key = fresh_key()?;
    let token = CancellationToken::new();
    let quiet = || token.clone();
    let request = AcquireRequest::new(&key, LONG)?.with_cancellation(quiet());
    let lock = client.send_granted(request).await?;
    let locked = IsLockedRequest::new(&key)?.with_cancellation(quiet());
    ensure!(backend.is_locked(locked).await?, "is_locked answered false for a live lock");
    let by_key = LookupRequest::by_key(&key)?.with_cancellation(quiet());
    ensure!(client.find(by_key).await?.is_some(), "lookup found nothing of a live lock");
    let extend = ExtendRequest::new(lock.lock_id, 2 * LONG)?.with_cancellation(quiet());
    ensure!(backend.extend(extend).await?.is_extended(), "a live lock was not extended");
    let before = client.live(&key, lock.lock_id).await?;
    // The cancellation comes too late: all requests have been answered.
    token.cancel();
    pause(20).await;
    client.unchanged(&key, lock.lock_id, before).await?;
    let release = ReleaseRequest::new(lock.lock_id).with_cancellation(CancellationToken::new());
    ensure!(backend.release(release).await?.is_released(), "a live lock was not released");
    Ok(client.free(&key).await?)
}

pub(crate) async fn a_token_fired_on_the_way_leaves_no_lock(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    for polls in 0..=POLLS {
        let key = fresh_key()?;
        let token = CancellationToken::new();
        let request = AcquireRequest::new(&key, LONG)?.with_cancellation(token.clone());
        let lock_id = request.lock_id;
        match fired_after(polls, &token, client.backend().acquire(request)).await {
            Ok(AcquireResult::Acquired(_)) => client.released(lock_id).await?,
            answer => {
                aborted("acquire", answer)?;
                context.soon_free(&other, &key).await?;
            }
        }
        other.powerless(lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_token_fired_on_the_way_leaves_a_whole_lock_or_none(
    context: &Context<'_>,
) -> Outcome {
    let (client, other) = context.pair().await;
    for polls in 0..=POLLS {
        let key = fresh_key()?;
        let lock = client.take(&key, LONG).await?;

        let token = CancellationToken::new();
        let request = ExtendRequest::new(lock.lock_id, LONG)?.with_cancellation(token.clone());
        let answer = fired_after(polls, &token, client.backend().extend(request)).await;
        if answer.is_err() && token.is_cancelled() {
            ensure!(settled(&other, &key, lock.lock_id).await?, "an aborted extend released");
        }

        let token = CancellationToken::new();
        let request = ReleaseRequest::new(lock.lock_id).with_cancellation(token.clone());
        let answer = fired_after(polls, &token, client.backend().release(request)).await;
        if answer.is_err() && token.is_cancelled() {
            let whole = settled(&other, &key, lock.lock_id).await?;
            ensure!(whole || polls > 0, "a release that was never sent released");
        }
        let _ = client.release(lock.lock_id).await?;
        other.free(&key).await?;
        other.powerless(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_dropped_acquire_leaves_no_lock(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    for polls in 0..=POLLS {
        let key = fresh_key()?;
        let request = AcquireRequest::new(&key, LONG)?;
        let lock_id = request.lock_id;
        let answer = dropped_after(polls, client.backend().acquire(request)).await;
        match answer.transpose()? {
            Some(_) => client.released(lock_id).await?,
            None => context.soon_free(&other, &key).await?,
        }
        other.powerless(lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_dropped_release_leaves_a_whole_lock_or_none(
    context: &Context<'_>,
) -> Outcome {
    let (client, other) = context.pair().await;
    for polls in 0..=POLLS {
        let key = fresh_key()?;
        let lock = client.take(&key, LONG).await?;
        let request = ReleaseRequest::new(lock.lock_id);
        let answer = dropped_after(polls, client.backend().release(request)).await;
        if answer.transpose()?.is_none() {
            let whole = settled(&other, &key, lock.lock_id).await?;
            ensure!(whole || polls > 0, "a release that was never sent released");
            if whole {
                client.released(lock.lock_id).await?;
            }
        }
        other.free(&key).await?;
        other.powerless(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_dropped_extend_leaves_a_whole_lock(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    for polls in 0..=POLLS {
        let key = fresh_key()?;
        let lock = client.take(&key, LONG).await?;
        let before = client.live(&key, lock.lock_id).await?;
        let request = ExtendRequest::new(lock.lock_id, 2 * LONG)?;
        let answer = dropped_after(polls, client.backend().extend(request)).await;
        if answer.transpose()?.is_none() {
            ensure!(settled(&other, &key, lock.lock_id).await?, "a dropped extend released");
        }
        let after = other.live(&key, lock.lock_id).await?;
        let gained = after.expires_at.as_millis().abs_diff(before.expires_at.as_millis());
        let least = LONG.saturating_sub(CLOCK_SLACK).as_millis();
        ensure!(
            gained == 0 || (polls > 0 && u128::from(gained) >= least),
            "a dropped extend moved the expiry by {gained} ms"
        );
        ensure_eq!(after.acquired_at, before.acquired_at, "the time of acquisition");
        client.released(lock.lock_id).await?;
        // No late request brings the lock back.
        pause(10).await;
        other.free(&key).await?;
    }
    Ok(())
}

pub(crate) async fn aborted_tasks_leave_no_lock(context: &Context<'_>) -> Outcome {
    let clients = context.clients(3).await;
    let key = fresh_key()?;
    let restless = polling_every(Duration::from_millis(1));
    let config = LockConfig::new(&key).with_ttl(LONG).with_acquisition(restless);
    for round in 0..20 {
        let tasks = clients.iter().cloned().map(|client| {
            let config = config.clone();
            tokio::spawn(async move {
                acquire(client.backend(), config).await?.release().await.map(|_| ())
            })
        });
        let tasks: Vec<_> = tasks.collect();
        // Each round cuts the operations off at another point, by steps of the scheduler or of the network.
        let started = std::time::Instant::now();
        for _ in 0..round / 2 {
            tokio::task::yield_now().await;
        }
        while round % 2 == 1 && started.elapsed() < Duration::from_micros(50) * round {
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.abort();
            match task.await {
                Ok(answer) => answer?,
                Err(end) if end.is_cancelled() => {}
                Err(end) => return Err(Stop::failed(end.to_string())),
            }
        }
    }
    Ok(context.soon_free(&clients[0], &key).await?)
}

pub(crate) async fn a_cancelled_wait_ends_at_once(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock, before } = context.held().await?;
    let token = CancellationToken::new();
    let slow = polling_every(LONG);
    let config = LockConfig::new(&key).with_acquisition(slow).with_cancellation(token.clone());
    let waiting = tokio::spawn(async move { acquire(rival.backend(), config).await.map(drop) });
    pause(50).await;
    token.cancel();
    let watch = context.watch();
    match waiting.await {
        Ok(answer) => aborted("acquire()", answer)?,
        Err(error) => return Err(Stop::failed(error.to_string())),
    }
    ensure!(watch.elapsed() < SOON, "it took {:?} to stop waiting", watch.elapsed());
    client.unchanged(&key, lock.lock_id, before).await?;
    Ok(client.released(lock.lock_id).await?)
}

/// The answer of an operation whose token fires after this many polls, unless it ends before.
async fn fired_after<F: Future>(
    polls: usize,
    token: &CancellationToken,
    operation: F,
) -> F::Output {
    let mut operation = pin!(operation);
    if let Some(answer) = poll_times(operation.as_mut(), polls).await {
        return answer;
    }
    token.cancel();
    operation.await
}

/// The answer of an operation that is dropped after this many polls, if it ends before.
async fn dropped_after<F: Future>(polls: usize, operation: F) -> Option<F::Output> {
    poll_times(pin!(operation), polls).await
}

fn fired() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

#[track_caller]
fn aborted<T: Debug>(operation: &str, answer: Result<T, LockError>) -> Outcome {
    match answer {
        Err(error) if error.code() == ErrorCode::Aborted => Ok(()),
        Err(error) => Err(Stop::failed(format!("{operation} with a fired token failed: {error}"))),
        Ok(answer) => Err(Stop::failed(format!("{operation} with a fired token: {answer:?}"))),
    }
}

/// Waits for background work, and returns whether the lock is complete (`true`) or fully gone (`false`). A partial
/// lock breaks the rule, unless it changes between two looks.
async fn settled(client: &Client, key: &Key, lock_id: LockId) -> Checked<bool> {
    const LOOKS: u32 = 10;
    let mut look = 1;
    loop {
        pause(200).await;
        let locked = client.is_locked(key).await?;
        let seen = if locked {
            client.live(key, lock_id).await.map(drop)
        } else {
            gone(client, key, lock_id).await
        };
        match seen {
            Ok(()) => return Ok(locked),
            Err(error) if look == LOOKS => return Err(error),
            Err(_) => look += 1,
        }
    }
}

async fn gone(client: &Client, key: &Key, lock_id: LockId) -> Checked<()> {
    client.free(key).await?;
    client.powerless(lock_id).await
}
