//! Requests that arrive late: after their sender has given up, or after later requests.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use syncguard_core::contract::{AcquireRequest, AcquireResult, ExtendRequest, ReleaseRequest};
use syncguard_core::{
    DynBackend, ErrorCode, ExtendResult, Key, LockBackend, LockConfig, LockError, LockId,
    ReleaseResult, try_acquire,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Late;
use crate::client::Client;
use crate::context::{Context, LONG, SHORT, SOON, fresh_key, in_time, with_lateness};
use crate::outcome::{Checked, Outcome, Stop, ensure, ensure_eq};
use crate::tasks::pause;

pub(crate) async fn a_request_that_is_a_little_late_is_served(context: &Context<'_>) -> Outcome {
    let gated = Gated::of(context).await?;
    let (lock_id, acquire) = gated.acquire().await?;
    let granted = gated.a_little_late(context, acquire).await?;
    ensure!(granted.is_acquired(), "an acquire that was a little late answered {granted:?}");

    let extend = gated.extend(ExtendRequest::new(lock_id, 2 * LONG)?).await?;
    let extended = gated.a_little_late(context, extend).await?;
    ensure!(extended.is_extended(), "an extend that was a little late answered {extended:?}");
    gated.other.live(&gated.key, lock_id).await?;

    let release = gated.release(lock_id).await?;
    let released = gated.a_little_late(context, release).await?;
    ensure!(released.is_released(), "a release that was a little late answered {released:?}");
    Ok(gated.other.free(&gated.key).await?)
}

pub(crate) async fn a_late_acquire_takes_no_lock(context: &Context<'_>) -> Outcome {
    let gated = Gated::of(context).await?;
    let (lock_id, acquire) = gated.acquire().await?;
    gated.overdue(context, "acquire", acquire).await?;
    gated.late.gate.deliver();
    gated.stays_free(lock_id).await?;
    // The fence is the first or a later one: a clean-up may raise the counter to keep the late acquire out.
    gated.other.take(&gated.key, LONG).await?;
    Ok(())
}

pub(crate) async fn a_late_acquire_leaves_nothing_after_the_clean_up(
    context: &Context<'_>,
) -> Outcome {
    let gated = Gated::of(context).await?;
    let (lock_id, acquire) = gated.acquire().await?;
    gated.desert(acquire).await?;
    let clean_up = gated.client.backend().client_state();
    let started = Instant::now();
    // The lock may be over before the suite looks.
    while clean_up.pending_releases() == 0 && started.elapsed() < A_MOMENT {
        pause(1).await;
    }
    gated.is_cleaned_up().await?;
    ensure!(gated.late.gate.holds(), "the gate has lost what it kept back");
    gated.late.gate.deliver();
    Ok(gated.stays_free(lock_id).await?)
}

pub(crate) async fn the_first_of_two_acquires_comes_late(context: &Context<'_>) -> Outcome {
    let gated = Gated::of(context).await?;
    let (lock_id, acquire) = gated.acquire().await?;
    gated.late.gate.cut();
    match answer(acquire).await? {
        Ok(AcquireResult::Acquired(_)) => gated.client.released(lock_id).await?,
        Ok(AcquireResult::Busy(_) | AcquireResult::Refused(_)) => {
            return Err(Stop::failed("an acquire that was sent twice was refused a free key"));
        }
        // This backend does not resend, so its clean-up has to release the lock.
        Err(_) => {}
    }
    ensure!(gated.late.gate.holds(), "the gate has lost what it kept back");
    gated.late.gate.deliver();
    gated.is_cleaned_up().await?;
    Ok(gated.stays_free(lock_id).await?)
}

pub(crate) async fn a_late_extend_changes_nothing(context: &Context<'_>) -> Outcome {
    let gated = Gated::of(context).await?;
    let lock = gated.client.take(&gated.key, 2 * LONG).await?;
    let extend = gated.extend(ExtendRequest::new(lock.lock_id, LONG)?).await?;
    gated.overdue(context, "extend", extend).await?;
    Ok(gated.stays_as_extended(lock.lock_id).await?)
}

pub(crate) async fn a_late_extend_gives_way_to_a_later_one(context: &Context<'_>) -> Outcome {
    let gated = Gated::of(context).await?;
    let lock = gated.client.take(&gated.key, 2 * LONG).await?;
    let request = ExtendRequest::new(lock.lock_id, LONG)?.with_expected_expiry(lock.expires_at);
    let extend = gated.extend(request).await?;
    gated.desert(extend).await?;
    Ok(gated.stays_as_extended(lock.lock_id).await?)
}

pub(crate) async fn a_late_release_frees_nothing(context: &Context<'_>) -> Outcome {
    let gated = Gated::of(context).await?;
    let lock = gated.client.take(&gated.key, 2 * LONG).await?;
    let release = gated.release(lock.lock_id).await?;
    gated.overdue(context, "release", release).await?;
    Ok(gated.stays_as_extended(lock.lock_id).await?)
}

pub(crate) async fn a_grant_that_comes_too_late_is_given_back(context: &Context<'_>) -> Outcome {
    let gated = Gated::of(context).await?;
    let (backend, config) = (gated.backend(), LockConfig::new(&gated.key).with_ttl(SHORT));
    let attempt = gated.held_back(async move {
        Ok(try_acquire(&backend, config).await?.acquired().map(|guard| guard.valid_for()))
    });
    let attempt = attempt.await?;
    context.pass(2 * SHORT).await;
    gated.late.gate.deliver();
    match answer(attempt).await? {
        Err(error) => ensure_eq!(error.code(), ErrorCode::NetworkTimeout, "the code of {error}"),
        Ok(Some(left)) => {
            return Err(Stop::failed(format!("a lock that was over was handed out for {left:?}")));
        }
        Ok(None) => return Err(Stop::failed("a free key was refused")),
    }
    Ok(context.soon_free(&gated.other, &gated.key).await?)
}

/// How often, and how many milliseconds apart, the suite looks for the effect of a late request.
const LOOKS: u32 = 8;
const PAUSE: u64 = 40;

/// How long the suite looks for a clean-up that may be over before it is seen.
const A_MOMENT: Duration = Duration::from_millis(500);

/// A request on its way.
type Sent<T> = JoinHandle<Result<T, LockError>>;

/// A gate, its client, and a second client whose requests are not held back.
struct Gated {
    late: Late<DynBackend>,
    client: Client,
    other: Client,
    /// A key that nobody has taken.
    key: Key,
}

impl Gated {
    async fn of(context: &Context<'_>) -> Result<Self, Stop> {
        let late = context.late().await?;
        let client = Client::new(late.backend.clone(), context.fences());
        // From here on the client is connected and knows the store's clock.
        let key = fresh_key()?;
        for _ in 0..2 {
            let lock = client.take(&key, LONG).await?;
            client.extended(lock.lock_id, LONG).await?;
            client.released(lock.lock_id).await?;
        }
        Ok(Self { late, client, other: context.client().await, key: fresh_key()? })
    }

    fn backend(&self) -> DynBackend {
        self.client.backend().clone()
    }

    /// Sends a request that is held back.
    async fn held_back<T: Debug + Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, LockError>> + Send + 'static,
    ) -> Result<Sent<T>, Stop> {
        self.late.gate.hold();
        let sent = tokio::spawn(operation);
        let started = Instant::now();
        while !self.late.gate.holds() {
            if sent.is_finished() {
                let why = format!("the gate kept nothing back of what ended with {:?}", sent.await);
                return Err(Stop::too_slow(why));
            }
            if started.elapsed() > SOON {
                return Err(Stop::too_slow("the gate kept nothing back of what was sent"));
            }
            pause(1).await;
        }
        // The driver may have sent another request before, over the same connection.
        pause(20).await;
        if sent.is_finished() {
            return Err(Stop::too_slow(
                "the gate let the request pass, and kept something else back",
            ));
        }
        Ok(sent)
    }

    async fn acquire(&self) -> Result<(LockId, Sent<AcquireResult>), Stop> {
        let request = AcquireRequest::new(&self.key, LONG)?;
        let (lock_id, backend) = (request.lock_id, self.backend());
        Ok((lock_id, self.held_back(async move { backend.acquire(request).await }).await?))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Sent<ExtendResult>, Stop> {
        let backend = self.backend();
        self.held_back(async move { backend.extend(request).await }).await
    }

    async fn release(&self, lock_id: LockId) -> Result<Sent<ReleaseResult>, Stop> {
        let (backend, request) = (self.backend(), ReleaseRequest::new(lock_id));
        self.held_back(async move { backend.release(request).await }).await
    }

    /// Delivers a request within its bound.
    async fn a_little_late<T>(&self, context: &Context<'_>, sent: Sent<T>) -> Result<T, Stop> {
        let delivered = async {
            context.pass(self.late.bound / 8).await;
            self.late.gate.deliver();
            answer(sent).await
        };
        let (answer, lateness) = with_lateness(&self.other, delivered).await?;
        let answer = answer?;
        if answer.as_ref().is_err_and(|error| error.code() == ErrorCode::NetworkTimeout) {
            in_time(self.late.bound / 8, lateness)?;
        }
        Ok(answer?)
    }

    /// Waits until the backend has given up the request, and until the store may not carry it out any more.
    async fn overdue<T: Debug>(&self, context: &Context<'_>, what: &str, sent: Sent<T>) -> Outcome {
        if let Ok(answer) = answer(sent).await? {
            return Err(Stop::failed(format!("{what}, kept back, was answered {answer:?}")));
        }
        self.late.gate.cut();
        context.pass(self.late.bound).await;
        ensure!(self.late.gate.holds(), "the gate has lost what it kept back");
        Ok(())
    }

    /// The caller gives up, then the connection ends.
    async fn desert<T>(&self, sent: Sent<T>) -> Outcome {
        sent.abort();
        let _ = sent.await;
        self.late.gate.cut();
        pause(20).await;
        ensure!(self.late.gate.holds(), "the gate has lost what it kept back");
        Ok(())
    }

    /// Looks for a lock on the key.
    async fn stays_free(&self, lock_id: LockId) -> Checked<()> {
        for _ in 0..LOOKS {
            self.other.free(&self.key).await?;
            pause(PAUSE).await;
        }
        self.other.powerless(lock_id).await
    }

    /// Another client extends the lock. Then delivers the held requests, and checks whether they changed the lock.
    async fn stays_as_extended(&self, lock_id: LockId) -> Checked<()> {
        self.other.extended(lock_id, 3 * LONG).await?;
        let before = self.other.live(&self.key, lock_id).await?;
        self.late.gate.deliver();
        for _ in 0..LOOKS {
            self.other.unchanged(&self.key, lock_id, before).await?;
            pause(PAUSE).await;
        }
        self.other.released(lock_id).await
    }

    /// Waits until the backend has no background work left.
    async fn is_cleaned_up(&self) -> Outcome {
        let clean_up = self.client.backend().client_state();
        let started = Instant::now();
        while clean_up.pending_releases() > 0 {
            let in_time = started.elapsed() <= self.late.bound + SOON;
            ensure!(in_time, "the clean-up of a late acquire does not end");
            pause(10).await;
        }
        Ok(())
    }
}

async fn answer<T>(sent: Sent<T>) -> Result<Result<T, LockError>, Stop> {
    sent.await.map_err(|error| Stop::failed(error.to_string()))
}
