//! Attempts to take a lock that another caller holds.

use std::time::Duration;

use syncguard_core::contract::{
    AcquireRequest, Holder, LookupRequest, TIME_TOLERANCE, WatchRequest,
};
use syncguard_core::{AcquisitionOptions, ErrorCode, LockBackend as _, LockConfig, acquire};

use crate::context::{
    ATTEMPTS, CLOCK_SLACK, Context, HeldLock, LONG, SHORT, SOON, fresh_key, in_time, polling_every,
    too_slow, with_lateness,
};
use crate::outcome::{Outcome, Stop, ensure, ensure_eq};
use crate::tasks::pause;

pub(crate) async fn a_held_key_is_refused(context: &Context<'_>) -> Outcome {
    let clients = context.clients(3).await;
    let key = fresh_key()?;
    for holder in &clients {
        let lock = holder.take(&key, LONG).await?;
        for rival in &clients {
            rival.refused(&key, LONG).await?;
            rival.live(&key, lock.lock_id).await?;
        }
        holder.released(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_refusal_says_how_long_at_most(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let watch = context.watch();
    let lock = client.take(&key, LONG).await?;
    for ttl in [LONG, 2 * LONG] {
        let left = rival.refused_for(&key, LONG).await?;
        let longest = ttl + TIME_TOLERANCE;
        let shortest = longest.saturating_sub(watch.elapsed() + CLOCK_SLACK);
        ensure!(
            (shortest..=longest + CLOCK_SLACK).contains(&left),
            "a lock of {ttl:?} is said to be free after {left:?} at the latest"
        );
        client.extended(lock.lock_id, 2 * LONG).await?;
    }
    Ok(())
}

pub(crate) async fn a_key_is_free_when_the_refusal_said(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    for _ in 0..ATTEMPTS {
        let (key, watch) = (fresh_key()?, context.watch());
        client.take(&key, SHORT).await?;
        let left = rival.refused_for(&key, LONG).await;
        if watch.within_tolerance(SHORT) {
            let slack =
                if context.has_paused_clock() { Duration::from_millis(1) } else { CLOCK_SLACK };
            context.pass(left? + slack).await;
            rival.take(&key, LONG).await?;
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn a_holder_of_this_library_does_not_poll(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let named = Holder::new("a \"holder\" \\")?.with_note("n\u{f6}te")?;
    for holder in [None, Some(named), Some(Holder::unnamed())] {
        let key = fresh_key()?;
        let mut request = AcquireRequest::new(&key, LONG)?;
        request.holder = holder;
        let lock = client.send_granted(request).await?;
        for _ in 0..2 {
            let refusal = rival.refusal(&key, LONG).await?;
            ensure!(!refusal.is_polled, "a holder of this library is said to poll");
            let watch = rival.backend().watch(WatchRequest::new(key.clone())).await;
            let polls = watch.is_some_and(|watch| watch.is_polled);
            ensure!(!polls, "a watch says of a holder of this library that it polls");
            client.extended(lock.lock_id, 2 * LONG).await?;
        }
        client.released(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn a_refusal_changes_nothing(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock, before } = context.held().await?;
    for _ in 0..17 {
        for ttl in [SHORT, LONG, 2 * LONG] {
            context.pass(Duration::from_millis(1)).await;
            rival.refused(&key, ttl).await?;
        }
        client.unchanged(&key, lock.lock_id, before).await?;
    }
    client.released(lock.lock_id).await?;
    rival.take(&key, LONG).await?;
    Ok(())
}

pub(crate) async fn a_refused_request_is_granted_once_the_key_is_free(
    context: &Context<'_>,
) -> Outcome {
    let HeldLock { client, key, lock, before, .. } = context.held().await?;
    let request = AcquireRequest::new(&key, LONG)?;
    for _ in 0..3 {
        ensure!(client.send(request.repeat()).await?.is_none(), "a held key was granted");
        client.powerless(request.lock_id).await?;
    }
    client.unchanged(&key, lock.lock_id, before).await?;
    client.released(lock.lock_id).await?;
    let next = client.send_granted(request).await?;
    client.live(&key, next.lock_id).await?;
    Ok(())
}

pub(crate) async fn a_waiting_contender_gets_its_turn(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock, .. } = context.held().await?;
    let often = polling_every(Duration::from_millis(20));
    let patient = LockConfig::new(&key).with_ttl(LONG).with_acquisition(often);
    let waiting = tokio::spawn({
        let rival = rival.clone();
        async move { acquire(rival.backend(), patient).await }
    });
    pause(100).await;
    ensure!(!waiting.is_finished(), "a contender ended while the key was held");
    client.released(lock.lock_id).await?;
    let watch = context.watch();
    let guard = match waiting.await {
        Ok(guard) => guard?,
        Err(error) => return Err(Stop::failed(error.to_string())),
    };
    ensure!(watch.elapsed() < SOON, "a free key was taken only after {:?}", watch.elapsed());
    let seen = client.live(&key, guard.lock_id()).await?;
    let (was, is) = (lock.fence, seen.fence);
    ensure!(is.is_none() || is > was, "the fence went from {was:?} to {is:?}");
    Ok(())
}

pub(crate) async fn waiting_ends_with_the_time_limit(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let request = AcquireRequest::new(&key, LONG)?.with_holder(Holder::new("the holder")?);
    let lock = client.send_granted(request).await?;
    let before = client.live(&key, lock.lock_id).await?;
    let found = client.find(LookupRequest::by_lock_id(lock.lock_id)).await?;
    let holder = found.and_then(|info| info.holder);
    // For several answers of a busy store.
    let short = AcquisitionOptions::new().with_timeout(Duration::from_secs(3));
    // A caller that does not wait asks the store once, and is not told the holder.
    for (options, told) in [(short, holder.as_ref()), (short.with_max_retries(0), None)] {
        let impatient = LockConfig::new(&key).with_acquisition(options);
        let refused = acquire(rival.backend(), impatient);
        let (Err(error), lateness) = with_lateness(&client, refused).await? else {
            return Err(Stop::failed("a held key was granted"));
        };
        if error.holder().is_none() && told.is_some() {
            // The caller asks for the holder for a quarter of a second, which is too short for a busy store.
            in_time(Duration::from_millis(80), lateness)?;
        }
        ensure_eq!(error.code(), ErrorCode::AcquisitionTimeout, "the error's code");
        ensure_eq!(error.holder(), told, "the holder that the error names");
        let names = told.is_none_or(|told| error.to_string().contains(told.label()));
        ensure!(names, "the error does not show the holder: {error}");
    }
    Ok(client.unchanged(&key, lock.lock_id, before).await?)
}
