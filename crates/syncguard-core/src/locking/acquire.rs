//! Taking a lock: waiting for it, or one attempt.

use std::future::Future;

use super::call::{Call, Tried};
use super::config::LockConfig;
use super::guard::LockGuard;
use super::head::Head;
use super::observed::ObservedAcquisition;
use crate::backend::LockBackend;
use crate::client::queue::Ticket;
use crate::contract::response::Contention;
use crate::rt::Instant;
use crate::value::{ErrorCode, LockError, LockId};

/// Takes a lock, and waits for it while another holder has it.
///
/// The callers of one process wait in a queue. The head of the queue asks the store; callers get the
/// lock in the order of their arrival, each with an acquire of its own. Between processes no order is
/// promised, but a process that has kept the lock to itself for a while lets other processes in.
///
/// This function waits only for contention. It reports a failing store at once, unless
/// [`with_ride_out`](LockConfig::with_ride_out) says for how long to ask again. An acquire without retries does
/// not wait in the queue, and neither does [`try_acquire`].
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::{LockBackend, LockConfig, LockError, acquire};
///
/// async fn migrate<B: LockBackend>(backend: &B) -> Result<(), LockError> {
///     let guard = acquire(backend, LockConfig::new("migrations").with_ttl(Duration::from_secs(60))).await?;
///     // … the schema is ours for guard.valid_for() …
///     guard.release().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// - `AcquisitionTimeout` when the time limit or the retries have run out while another holder had the
///   lock.
/// - `NetworkTimeout` when they have run out because the store did not answer, or answered only after
///   the TTL. A lock that the store may still grant is given back in the background.
/// - `Aborted` when the configuration's token fires.
/// - `InvalidArgument` for a bad key or setting, before anything is sent.
/// - The store's failures, at once or after the time of [`with_ride_out`](LockConfig::with_ride_out).
///
/// # Cancel safety
///
/// Safe: dropping the future leaves no lock behind, and gives up its place in the queue. A future that
/// is kept but not polled loses its place after a second or more, so that it does not hold up the other
/// waiters.
pub fn acquire<B, C>(
    backend: &B,
    config: C,
) -> impl Future<Output = Result<LockGuard<B>, LockError>>
where
    B: LockBackend,
    C: Into<LockConfig>,
{
    // Outside the future, which would otherwise hold both the argument and the config made from it.
    let config = config.into();
    async move {
        let call = Call::new(backend, &config)?;
        let mut observed = call.observe(LockId::generate()?);
        // Boxed, because few waiters see an outage.
        let mut outage = None;
        loop {
            // The guard leaves the future at once: a name for the result would keep room for it.
            let error = match if call.policy.acquisition.max_retries == 0 {
                Box::pin(call.once_within_limit(&mut observed)).await
            } else {
                wait(&call, &mut observed).await
            } {
                Ok(guard) => return observed.end(Ok(guard), |_| true),
                Err(error) => error,
            };
            let was_answered = std::mem::take(&mut observed.was_answered);
            let Some(pause) = call.pause_in_outage(&error, was_answered, &mut outage) else {
                let error = match error.code() {
                    ErrorCode::AcquisitionTimeout => Box::pin(call.with_holder(error)).await,
                    _ => error,
                };
                return observed.end(Err(error), |_| true);
            };
            drop(error);
            if let Err(aborted) = Box::pin(call.sleep(pause)).await {
                return observed.end(Err(aborted), |_| true);
            }
            // The backend gives back a lock that the store may still grant to the old id.
            observed.set_lock_id(LockId::generate()?);
        }
    }
}

/// Waits until the lock is granted, or a limit is reached.
///
/// The future of a queued waiter stays small: the state that only the head needs is boxed when the
/// waiter becomes the head.
async fn wait<'a, B: LockBackend>(
    call: &'a Call<'a, B>,
    observed: &mut ObservedAcquisition<'_>,
) -> Result<LockGuard<B>, LockError> {
    let now = Instant::now();
    let deadline = now + call.policy.acquisition.timeout;
    let (mut ticket, turn) = Ticket::enter(call.queues(), call.key, now);
    let (turn, head_since) = match turn {
        Some(turn) => (turn, Some(now)),
        None => (call.wait_to_be_head(&mut ticket, deadline).await?, None),
    };
    Box::pin(Head::run(call, observed, ticket, turn, head_since, deadline)).await
}

/// Takes a lock if it is free right now.
///
/// This function makes one attempt and does not use the retry settings of the configuration. It neither
/// waits in the queue nor overtakes it: while other callers of this process wait for the lock, the
/// answer is [`TryAcquired::Busy`] without a request to the store.
///
/// ```
/// use syncguard_core::{LockBackend, LockError, try_acquire};
///
/// async fn clean_up_unless_it_runs<B: LockBackend>(backend: &B) -> Result<(), LockError> {
///     let Some(guard) = try_acquire(backend, "cleanup").await?.acquired() else {
///         return Ok(()); // it runs on another machine
///     };
///     // … the lock is ours …
///     guard.release().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// `Aborted` if the configuration's token fires, `InvalidArgument` for a bad key or setting,
/// `NetworkTimeout` if the answer came only after the TTL (the lock is given back), and the store's
/// failures.
///
/// # Cancel safety
///
/// Safe: dropping the future leaves no lock behind.
pub async fn try_acquire<B, C>(
    backend: &B,
    config: C,
) -> Result<TryAcquired<LockGuard<B>>, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
{
    let config = config.into();
    let call = Call::new(backend, &config)?;
    let mut observed = call.observe(LockId::generate()?);
    let result = call.once_unless_queued(&mut observed).await.and_then(|tried| match tried {
        Tried::Granted(guard) => Ok(TryAcquired::Acquired(guard)),
        Tried::Busy(contention) => Ok(TryAcquired::Busy(contention)),
        Tried::Late => Err(call.late_error()),
    });
    observed.end(result, TryAcquired::is_acquired)
}

/// The answer of a call that does not wait: of [`try_acquire`] with a [`LockGuard`], of recipes with their guards.
#[derive(Debug)]
#[must_use = "an acquired lock is given back as soon as its guard is dropped"]
pub enum TryAcquired<G> {
    /// It was free. It is held while the guard lives and is valid.
    Acquired(G),
    /// Another holder has it, or other callers of this process wait for it.
    Busy(Contention),
}

impl<G> TryAcquired<G> {
    /// The guard, if it was free.
    #[must_use = "an acquired lock is given back as soon as its guard is dropped"]
    pub fn acquired(self) -> Option<G> {
        match self {
            Self::Acquired(guard) => Some(guard),
            Self::Busy(_) => None,
        }
    }

    /// The same answer with another guard.
    pub fn map<H>(self, guard: impl FnOnce(G) -> H) -> TryAcquired<H> {
        match self {
            Self::Acquired(own) => TryAcquired::Acquired(guard(own)),
            Self::Busy(contention) => TryAcquired::Busy(contention),
        }
    }

    /// Whether it was free and is held now.
    #[must_use]
    pub const fn is_acquired(&self) -> bool {
        matches!(self, Self::Acquired(_))
    }

    /// Whether another holder has it.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }
}
