//! Fencing tokens and their counters. These cases do not apply to a backend that does not fence.

use syncguard_core::contract::AcquireRequest;
use syncguard_core::{ErrorCode, Fence, LockBackend};
use tracing::Level;

use crate::context::{Context, HeldLock, LONG, SHORT, fresh_key};
use crate::logs::Watching;
use crate::outcome::{Outcome, Stop, ensure, ensure_eq};

pub(crate) async fn the_first_fence_is_one(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    for _ in 0..3 {
        let fence = client.take(&fresh_key()?, LONG).await?.fence()?;
        ensure_eq!(fence, Fence::new(1)?, "the first fence of a key");
    }
    Ok(())
}

pub(crate) async fn fences_grow_with_every_acquisition(context: &Context<'_>) -> Outcome {
    let clients = [context.clones().await, context.clones().await].concat();
    let key = fresh_key()?;
    let mut last = Fence::ZERO;
    for client in clients.iter().cycle().take(20) {
        let lock = client.take(&key, LONG).await?;
        grown(&mut last, lock.fence()?)?;
        client.released(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn fences_grow_across_expiry(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let mut last = Fence::ZERO;
    // A counter that restarted must not pass for a counter that goes on.
    for _ in 0..3 {
        let lock = client.take(&key, LONG).await?;
        grown(&mut last, lock.fence()?)?;
        client.released(lock.lock_id).await?;
    }
    grown(&mut last, client.take(&key, SHORT).await?.fence()?)?;
    context.outlive(SHORT).await;
    grown(&mut last, rival.take(&key, LONG).await?.fence()?)?;
    Ok(())
}

pub(crate) async fn each_key_has_its_own_counter(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let (busy, quiet) = (fresh_key()?, fresh_key()?);
    for expected in 1..=5 {
        let lock = client.take(&busy, LONG).await?;
        ensure_eq!(lock.fence()?, Fence::new(expected)?, "the fence of the busy key");
        client.released(lock.lock_id).await?;
    }
    let lock = client.take(&quiet, LONG).await?;
    ensure_eq!(lock.fence()?, Fence::new(1)?, "the first fence of the quiet key");
    Ok(())
}

pub(crate) async fn an_extend_keeps_the_fence(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key, lock, .. } = context.held().await?;
    for _ in 0..3 {
        client.extended(lock.lock_id, LONG).await?;
        let seen = client.live(&key, lock.lock_id).await?;
        ensure_eq!(seen.fence, lock.fence, "the fence after an extend");
    }
    client.released(lock.lock_id).await?;
    let next = client.take(&key, LONG).await?.fence()?;
    ensure_eq!(next, lock.fence()?.next()?, "the fence of the next holder");
    Ok(())
}

pub(crate) async fn the_next_fence_follows_the_counter(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    context.set_fence_counter(&key, Fence::new(41)?).await;
    let lock = client.take(&key, LONG).await?;
    ensure_eq!(lock.fence()?, Fence::new(42)?, "the fence after a counter of 41");
    Ok(())
}

pub(crate) async fn large_fences_keep_every_digit(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    context.set_fence_counter(&key, Fence::new(123_456_789_012_343)?).await;
    for expected in [123_456_789_012_344, 123_456_789_012_345] {
        let expected = Fence::new(expected)?;
        let request = AcquireRequest::new(&key, LONG)?;
        let lock = client.send_granted(request.repeat()).await?;
        ensure_eq!(lock.fence()?, expected, "the granted fence");
        let again = client.send_granted(request).await?;
        ensure_eq!(again.fence()?, expected, "the fence in the answer to the repeated request");
        client.extended(lock.lock_id, LONG).await?;
        let seen = client.live(&key, lock.lock_id).await?;
        ensure_eq!(seen.fence, Some(expected), "the fence that the lookup shows");
        client.released(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_fence_above_the_warning_level_is_granted(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    context.set_fence_counter(&key, Fence::WARN).await;
    let lock = client.take(&key, LONG).await?;
    ensure_eq!(lock.fence()?, Fence::WARN.next()?, "the first fence above the warning level");
    client.live(&key, lock.lock_id).await?;
    Ok(client.released(lock.lock_id).await?)
}

pub(crate) async fn a_fence_above_the_warning_level_is_logged(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let Some(watching) = Watching::start(vec![key.hash_id().to_string()])? else {
        return Err(Stop::NotApplicable("tests with a tracing subscriber of their own hide logs"));
    };
    context.set_fence_counter(&key, Fence::WARN).await;
    client.take(&key, LONG).await?;
    ensure!(
        watching.lines().iter().any(|line| line.level == Level::WARN),
        "no warning with the key's hash was logged"
    );
    Ok(())
}

pub(crate) async fn the_last_fence_is_granted(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    context.set_fence_counter(&key, Fence::new(Fence::MAX.get() - 1)?).await;
    let request = AcquireRequest::new(&key, LONG)?;
    let lock = client.send_granted(request.repeat()).await?;
    ensure_eq!(lock.fence()?, Fence::MAX, "the last fence");
    let seen = client.live(&key, lock.lock_id).await?;
    ensure_eq!(seen.fence, Some(Fence::MAX), "the last fence in the lookup");
    // An exhausted counter matters to the next acquisition alone.
    rival.refused(&key, LONG).await?;
    let again = client.send_granted(request).await?;
    ensure_eq!(again, lock, "the answer to the repeated request");
    client.extended(lock.lock_id, LONG).await?;
    client.released(lock.lock_id).await?;
    Ok(client.free(&key).await?)
}

pub(crate) async fn an_exhausted_counter_grants_nothing(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    // The second value is above all granted fences, as after a move from another store.
    for last in [Fence::MAX, Fence::new(999_999_999_999_999)?] {
        let key = fresh_key()?;
        context.set_fence_counter(&key, last).await;
        for _ in 0..3 {
            let request = AcquireRequest::new(&key, LONG)?;
            let lock_id = request.lock_id;
            let error = match client.backend().acquire(request).await {
                Err(error) => error,
                Ok(answer) => {
                    return Err(Stop::failed(format!("above the last fence: {answer:?}")));
                }
            };
            ensure_eq!(error.code(), ErrorCode::Internal, "the code of {error}");
            ensure!(!error.is_outcome_unknown(), "the outcome of a refused fence is known");
            other.free(&key).await?;
            other.powerless(lock_id).await?;
        }
    }
    Ok(())
}

pub(crate) async fn a_refusal_uses_up_no_fence(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock, .. } = context.held().await?;
    for _ in 0..5 {
        rival.refused(&key, LONG).await?;
    }
    client.released(lock.lock_id).await?;
    let next = rival.take(&key, LONG).await?;
    ensure_eq!(next.fence()?, lock.fence()?.next()?, "the fence of the next holder");
    Ok(())
}

fn grown(last: &mut Fence, fence: Fence) -> Outcome {
    ensure!(fence > *last, "fence {fence} follows fence {last}");
    *last = fence;
    Ok(())
}
