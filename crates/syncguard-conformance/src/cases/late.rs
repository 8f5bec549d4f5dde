//! Requests that arrive late: after their sender has given up, or after later requests.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use syncguard_core::contract::{AcquireRequest, AcquireResult, ExtendRequest, ReleaseRequest};
use syncguard_core::{
    DynBackend, ErrorCode, Key, LockBackend, LockConfig, LockError, LockId, try_acquire,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::client::Client;
use crate::context::{Context, LONG, SHORT, SOON, fresh_key};
use crate::outcome::{Checked, Outcome, Stop, ensure, ensure_eq};
use crate::tasks::pause;
use crate::{Late, LateLine};

pub(crate) async fn a_request_that_is_a_little_late_is_served(context: &Context<'_>) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let (lock_id, acquire) = acquire_held_back(&late, &client, &key).await?;
    context.pass(late.bound / 8).await;
    late.line.deliver();
    let granted = answer(acquire).await??;
    ensure!(granted.is_acquired(), "an acquire that was a little late answered {granted:?}");

    let (backend, request) = (client.backend().clone(), ExtendRequest::new(lock_id, 2 * LONG)?);
    let extend = held_back(&*late.line, async move { backend.extend(request).await }).await?;
    context.pass(late.bound / 8).await;
    late.line.deliver();
    let extended = answer(extend).await??;
    ensure!(extended.is_extended(), "an extend that was a little late answered {extended:?}");
    other.live(&key, lock_id).await?;

    let (backend, request) = (client.backend().clone(), ReleaseRequest::new(lock_id));
    let release = held_back(&*late.line, async move { backend.release(request).await }).await?;
    context.pass(late.bound / 8).await;
    late.line.deliver();
    let released = answer(release).await??;
    ensure!(released.is_released(), "a release that was a little late answered {released:?}");
    other.free(&key).await?;
    Ok(())
}

pub(crate) async fn a_late_acquire_takes_no_lock(context: &Context<'_>) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let (lock_id, acquire) = acquire_held_back(&late, &client, &key).await?;
    given_up("acquire", acquire).await?;
    overdue(context, &late).await?;
    stays_free(&late, &other, &key).await?;
    other.powerless(lock_id).await?;
    // The fence is the first or a later one: a clean-up may raise the counter to keep the late acquire out.
    other.take(&key, LONG).await?;
    Ok(())
}

pub(crate) async fn a_late_acquire_leaves_nothing_after_the_clean_up(
    context: &Context<'_>,
) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let (lock_id, acquire) = acquire_held_back(&late, &client, &key).await?;
    desert(&late, acquire).await;
    let clean_up = client.backend().client_state().clean_up();
    let started = Instant::now();
    // The lock may be over before the suite looks.
    while clean_up.waiting() == 0 && started.elapsed() < A_MOMENT {
        pause(1).await;
    }
    ensure!(cleaned_up(&client, &late).await, "the clean-up of a late acquire does not end");
    ensure!(late.line.holds(), "the line has lost what it kept back");
    stays_free(&late, &other, &key).await?;
    other.powerless(lock_id).await?;
    Ok(())
}

pub(crate) async fn the_first_of_two_acquires_comes_late(context: &Context<'_>) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let (lock_id, acquire) = acquire_held_back(&late, &client, &key).await?;
    late.line.cut();
    match answer(acquire).await? {
        Ok(AcquireResult::Acquired(_)) => client.released(lock_id).await?,
        Ok(AcquireResult::Locked(_) | AcquireResult::Refused(_)) => {
            return Err(Stop::failed("an acquire that was sent twice was refused a free key"));
        }
        // This backend does not resend, so its clean-up has to release the lock.
        Err(_) => {}
    }
    ensure!(late.line.holds(), "the line has lost what it kept back");
    late.line.deliver();
    ensure!(cleaned_up(&client, &late).await, "the clean-up of a late acquire does not end");
    still_free(&other, &key).await?;
    other.powerless(lock_id).await?;
    Ok(())
}

pub(crate) async fn a_late_extend_changes_nothing(context: &Context<'_>) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let lock = client.take(&key, 2 * LONG).await?;
    let (backend, request) = (client.backend().clone(), ExtendRequest::new(lock.lock_id, LONG)?);
    let extend = held_back(&*late.line, async move { backend.extend(request).await }).await?;
    given_up("extend", extend).await?;
    overdue(context, &late).await?;
    stays_as_extended(&late, &other, &key, lock.lock_id).await?;
    Ok(())
}

pub(crate) async fn a_late_extend_gives_way_to_a_later_one(context: &Context<'_>) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let lock = client.take(&key, 2 * LONG).await?;
    let request = ExtendRequest::new(lock.lock_id, LONG)?.with_expected_expiry(lock.expires_at);
    let backend = client.backend().clone();
    let extend = held_back(&*late.line, async move { backend.extend(request).await }).await?;
    desert(&late, extend).await;
    ensure!(late.line.holds(), "the line has lost what it kept back");
    stays_as_extended(&late, &other, &key, lock.lock_id).await?;
    Ok(())
}

pub(crate) async fn a_late_release_frees_nothing(context: &Context<'_>) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let lock = client.take(&key, 2 * LONG).await?;
    let (backend, request) = (client.backend().clone(), ReleaseRequest::new(lock.lock_id));
    let release = held_back(&*late.line, async move { backend.release(request).await }).await?;
    given_up("release", release).await?;
    overdue(context, &late).await?;
    stays_as_extended(&late, &other, &key, lock.lock_id).await?;
    Ok(())
}

pub(crate) async fn a_grant_that_comes_too_late_is_given_back(context: &Context<'_>) -> Outcome {
    let (late, client, other) = lines(context).await?;
    let key = fresh_key()?;
    let (backend, config) = (client.backend().clone(), LockConfig::new(&key).with_ttl(SHORT));
    let attempt = held_back(&*late.line, async move {
        Ok(try_acquire(&backend, config).await?.acquired().map(|guard| guard.valid_for()))
    });
    let attempt = attempt.await?;
    context.pass(2 * SHORT).await;
    late.line.deliver();
    match answer(attempt).await? {
        Err(error) => ensure_eq!(error.code(), ErrorCode::NetworkTimeout, "the code of {error}"),
        Ok(Some(left)) => {
            return Err(Stop::failed(format!("a lock that was over was handed out for {left:?}")));
        }
        Ok(None) => return Err(Stop::failed("a free key was refused")),
    }
    context.soon_free(&other, &key).await?;
    Ok(())
}

/// How often, and how many milliseconds apart, the suite looks for the effect of a late request.
const LOOKS: u32 = 8;
const PAUSE: u64 = 40;

/// How long the suite looks for a clean-up that may be over before it is seen.
const A_MOMENT: Duration = Duration::from_millis(500);

/// The line, its client, and a second client whose requests are not held back.
async fn lines(context: &Context<'_>) -> Result<(Late<DynBackend>, Client, Client), Stop> {
    let late = context.late().await?;
    let client = Client::new(late.backend.clone(), context.fences());
    // From here on the client is connected and knows the store's clock.
    let key = fresh_key()?;
    for _ in 0..2 {
        let lock = client.take(&key, LONG).await?;
        client.extended(lock.lock_id, LONG).await?;
        client.released(lock.lock_id).await?;
    }
    Ok((late, client, context.client().await))
}

/// Sends a request that is held back.
async fn held_back<T, F>(
    line: &dyn LateLine,
    operation: F,
) -> Result<JoinHandle<Result<T, LockError>>, Stop>
where
    T: Send + 'static,
    F: Future<Output = Result<T, LockError>> + Send + 'static,
{
    line.hold();
    let sent = tokio::spawn(operation);
    let started = Instant::now();
    while !line.holds() {
        if started.elapsed() > SOON {
            return Err(Stop::too_slow("the line kept nothing back of what was sent"));
        }
        pause(1).await;
    }
    // The driver may have sent another request before, over the same connection.
    pause(20).await;
    Ok(sent)
}

async fn acquire_held_back(
    late: &Late<DynBackend>,
    client: &Client,
    key: &Key,
) -> Result<(LockId, JoinHandle<Result<AcquireResult, LockError>>), Stop> {
    let request = AcquireRequest::new(key, LONG)?;
    let (lock_id, backend) = (request.lock_id, client.backend().clone());
    let acquire = held_back(&*late.line, async move { backend.acquire(request).await }).await?;
    Ok((lock_id, acquire))
}

async fn answer<T>(sent: JoinHandle<Result<T, LockError>>) -> Result<Result<T, LockError>, Stop> {
    sent.await.map_err(|error| Stop::failed(error.to_string()))
}

/// Waits until the backend has given up a request that the store has not received.
async fn given_up<T: Debug>(what: &str, sent: JoinHandle<Result<T, LockError>>) -> Outcome {
    match answer(sent).await? {
        Err(_) => Ok(()),
        Ok(answer) => Err(Stop::failed(format!("{what}, kept back, was answered {answer:?}"))),
    }
}

/// The caller gives up, then the connection ends.
async fn desert<T>(late: &Late<DynBackend>, sent: JoinHandle<Result<T, LockError>>) {
    sent.abort();
    let _ = sent.await;
    late.line.cut();
    pause(20).await;
}

/// Waits until the store may not carry out any held request any more.
async fn overdue(context: &Context<'_>, late: &Late<DynBackend>) -> Outcome {
    late.line.cut();
    context.pass(late.bound).await;
    ensure!(late.line.holds(), "the line has lost what it kept back");
    Ok(())
}

/// Delivers the held requests, and looks for a lock on the key.
async fn stays_free(late: &Late<DynBackend>, other: &Client, key: &Key) -> Checked<()> {
    late.line.deliver();
    still_free(other, key).await
}

/// Another client extends a lock. Then delivers the held requests, and checks whether they changed the lock.
async fn stays_as_extended(
    late: &Late<DynBackend>,
    other: &Client,
    key: &Key,
    lock_id: LockId,
) -> Checked<()> {
    other.extended(lock_id, 3 * LONG).await?;
    let before = other.live(key, lock_id).await?;
    late.line.deliver();
    for _ in 0..LOOKS {
        other.unchanged(key, lock_id, before).await?;
        pause(PAUSE).await;
    }
    other.released(lock_id).await
}

async fn still_free(other: &Client, key: &Key) -> Checked<()> {
    for _ in 0..LOOKS {
        other.free(key).await?;
        pause(PAUSE).await;
    }
    Ok(())
}

/// Waits until the backend has no background work left.
async fn cleaned_up(client: &Client, late: &Late<DynBackend>) -> bool {
    let clean_up = client.backend().client_state().clean_up();
    let started = Instant::now();
    while clean_up.waiting() > 0 {
        if started.elapsed() > late.bound + SOON {
            return false;
        }
        pause(10).await;
    }
    true
}
