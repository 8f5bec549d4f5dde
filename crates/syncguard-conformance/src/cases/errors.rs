//! Errors, and secrets that errors and logs must not contain.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use syncguard_core::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_core::{
    CancellationToken, ErrorCode, Fence, Key, LockBackend, LockConfig, LockError, LockId, acquire,
    lock,
};

use crate::client::Client;
use crate::context::{Context, LONG, SHORT, fresh_key, fresh_text};
use crate::logs::Watching;
use crate::outcome::{Checked, Outcome, Stop, ensure, ensure_eq};

pub(crate) async fn capabilities_are_truthful(context: &Context<'_>) -> Outcome {
    let ([client, clone], other) = (context.clones().await, context.client().await);
    let capabilities = client.backend().capabilities();
    ensure!(!capabilities.backend.trim().is_empty(), "the backend has no name");
    let fences = context.fences();
    ensure_eq!(capabilities.supports_fencing, fences, "whether the backend says it fences");
    ensure_eq!(clone.backend().capabilities(), capabilities, "what a clone can do");
    ensure_eq!(other.backend().capabilities(), capabilities, "what another connection can do");
    Ok(())
}

pub(crate) async fn debug_output_hides_key_and_lock_id(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let secret = Secret::new()?;
    let key = &secret.key;
    let request = AcquireRequest::new(key, LONG)?.with_lock_id(secret.lock_id);
    secret.hidden_in("an acquire request", &request)?;
    secret.hidden_in("its answer", &client.backend().acquire(request).await?)?;
    for request in [LookupRequest::by_key(key)?, LookupRequest::by_lock_id(secret.lock_id)] {
        secret.hidden_in("a lookup request", &request)?;
        let Some(info) = client.find(request).await? else {
            return Err(Stop::failed("lookup found nothing of a live lock"));
        };
        secret.hidden_in("a lookup", &info)?;
    }
    secret.hidden_in("an is_locked request", &IsLockedRequest::new(key)?)?;
    let request = ExtendRequest::new(secret.lock_id, LONG)?;
    secret.hidden_in("an extend request", &request)?;
    secret.hidden_in("its answer", &client.backend().extend(request).await?)?;
    let request = ReleaseRequest::new(secret.lock_id);
    secret.hidden_in("a release request", &request)?;
    secret.hidden_in("its answer", &client.backend().release(request).await?)?;

    let guard = acquire(client.backend(), LockConfig::new(key).with_ttl(LONG)).await?;
    let secret = Secret { key: key.clone(), lock_id: guard.lock_id() };
    secret.hidden_in("a guard", &guard)?;
    secret.hidden_in("what the work is given", &guard.held())?;
    Ok(())
}

pub(crate) async fn errors_hide_key_and_lock_id(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let secret = Secret::new()?;
    let mut errors = aborted(&client, &secret).await?;
    if context.fences() {
        context.set_fence_counter(&secret.key, Fence::MAX).await;
        let request = secret.request(LONG)?;
        errors.extend(client.backend().acquire(request).await.err());
    }
    for error in &errors {
        secret.hidden_in_error(error)?;
    }

    let secret = Secret::new()?;
    client.send_granted(secret.request(LONG)?).await?;
    if context.corrupt(&secret.key).await.is_ok() {
        for error in &everything(&client, &secret, None).await? {
            secret.hidden_in_error(error)?;
        }
    }
    Ok(())
}

pub(crate) async fn logs_hide_key_and_lock_id(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let (secret, rivals, expired) = (Secret::new()?, Secret::new()?, Secret::new()?);
    let needles = [&secret, &rivals, &expired].map(Secret::forms).concat();
    let Some(watching) = Watching::start(needles)? else {
        return Err(Stop::NotApplicable("tests with a tracing subscriber of their own hide logs"));
    };

    // A whole life of a lock, its end by the TTL, and each error that can come in between.
    let key = &secret.key;
    if context.fences() {
        context.set_fence_counter(key, Fence::WARN).await;
    }
    let request = AcquireRequest::new(key, LONG)?.with_lock_id(secret.lock_id);
    client.send_granted(request.repeat()).await?;
    client.send_granted(request).await?;
    let refused = AcquireRequest::new(key, LONG)?.with_lock_id(rivals.lock_id);
    ensure!(rival.send(refused).await?.is_none(), "a held key was granted");
    rival.powerless(rivals.lock_id).await?;
    client.live(key, secret.lock_id).await?;
    client.extended(secret.lock_id, LONG).await?;
    aborted(&client, &secret).await?;
    client.released(secret.lock_id).await?;
    client.powerless(secret.lock_id).await?;
    client.free(key).await?;
    lock(client.backend(), key, async |_| ()).await?;
    drop(acquire(client.backend(), LockConfig::new(key).with_ttl(LONG)).await?);
    if context.fences() {
        context.set_fence_counter(&rivals.key, Fence::MAX).await;
        let refused = rival.backend().acquire(rivals.request(LONG)?).await;
        ensure!(refused.is_err(), "an exhausted counter granted");
    }
    client.send_granted(expired.request(SHORT)?).await?;
    context.outlive(SHORT).await;
    client.powerless(expired.lock_id).await?;
    client.free(&expired.key).await?;
    client.take(&expired.key, LONG).await?;
    if context.corrupt(&expired.key).await.is_ok() {
        everything(&client, &expired, None).await?;
    }

    match watching.lines().first() {
        None => Ok(()),
        Some(line) => {
            Err(Stop::failed(format!("key or lock id at level {}: {}", line.level, line.text)))
        }
    }
}

pub(crate) async fn a_corrupt_record_is_an_internal_error(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let secret = Secret::new()?;
    let request = secret.request(LONG)?;
    client.send_granted(request.repeat()).await?;
    context.corrupt(&secret.key).await?;
    internal("acquire", other.backend().acquire(AcquireRequest::new(&secret.key, LONG)?).await)?;
    internal("acquire by the same request", client.backend().acquire(request).await)?;
    internal("is_locked", other.backend().is_locked(IsLockedRequest::new(&secret.key)?).await)?;
    internal("lookup", other.backend().lookup(LookupRequest::by_key(&secret.key)?).await)?;
    // A lookup by the id may not find such a record, but no operation may change it.
    for error in everything(&client, &secret, None).await? {
        ensure_eq!(error.code(), ErrorCode::Internal, "the code of {error}");
    }
    Ok(())
}

pub(crate) async fn a_corrupt_record_is_never_cleared(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let secret = Secret::new()?;
    client.send_granted(secret.request(LONG)?).await?;
    context.corrupt(&secret.key).await?;
    for _ in 0..3 {
        everything(&client, &secret, None).await?;
    }
    // Background work has ended by then.
    context.pass(SHORT).await;
    internal("is_locked", other.backend().is_locked(IsLockedRequest::new(&secret.key)?).await)?;
    internal("acquire", other.backend().acquire(AcquireRequest::new(&secret.key, LONG)?).await)?;
    Ok(())
}

pub(crate) async fn a_corrupt_record_ends_a_hold(context: &Context<'_>) -> Outcome {
    let (client, key) = (context.client().await, fresh_key()?);
    let mut guard = acquire(client.backend(), LockConfig::new(&key).with_ttl(LONG)).await?;
    context.corrupt(&key).await?;
    let answer = guard.extend(LONG).await;
    ensure!(guard.is_lost(), "the guard relies on a corrupt record after {answer:?}");
    Ok(())
}

/// A key and a lock id that must not appear anywhere.
struct Secret {
    key: Key,
    lock_id: LockId,
}

impl Secret {
    fn new() -> Checked<Self> {
        Ok(Self { key: Key::new(fresh_text()?)?, lock_id: LockId::generate()? })
    }

    fn request(&self, ttl: Duration) -> Result<AcquireRequest, LockError> {
        Ok(AcquireRequest::new(&self.key, ttl)?.with_lock_id(self.lock_id))
    }

    /// Their forms in logs and errors, as text and as bytes.
    fn forms(&self) -> Vec<String> {
        [self.key.expose(), self.lock_id.expose()]
            .into_iter()
            .flat_map(|text| {
                let bytes = format!("{:?}", text.as_bytes());
                [text.to_owned(), bytes.trim_matches(['[', ']']).to_owned()]
            })
            .collect()
    }

    fn hidden_in(&self, what: &str, shown: &impl Debug) -> Outcome {
        for text in [format!("{shown:?}"), format!("{shown:#?}")] {
            self.hidden_in_text(what, &text)?;
        }
        Ok(())
    }

    fn hidden_in_error(&self, error: &LockError) -> Outcome {
        self.hidden_in("an error", error)?;
        let mut next: Option<&dyn Error> = Some(error);
        while let Some(error) = next {
            self.hidden_in_text("an error", &error.to_string())?;
            self.hidden_in_text("an error", &format!("{error:?}"))?;
            next = error.source();
        }
        Ok(())
    }

    fn hidden_in_text(&self, what: &str, text: &str) -> Outcome {
        ensure!(
            !self.forms().iter().any(|form| text.contains(form)),
            "{what} shows the key or the lock id: {text}"
        );
        Ok(())
    }
}

/// Tries every operation under a cancelled token.
async fn aborted(client: &Client, secret: &Secret) -> Result<Vec<LockError>, Stop> {
    let fired = CancellationToken::new();
    fired.cancel();
    everything(client, secret, Some(&fired)).await
}

/// Tries every operation, expects it to fail, and collects the errors.
async fn everything(
    client: &Client,
    secret: &Secret,
    token: Option<&CancellationToken>,
) -> Result<Vec<LockError>, Stop> {
    let mut acquire = secret.request(LONG)?;
    let mut is_locked = IsLockedRequest::new(&secret.key)?;
    let mut by_key = LookupRequest::by_key(&secret.key)?;
    let mut by_id = LookupRequest::by_lock_id(secret.lock_id);
    let mut extend = ExtendRequest::new(secret.lock_id, LONG)?;
    let mut release = ReleaseRequest::new(secret.lock_id);
    acquire.cancellation = token.cloned();
    is_locked.cancellation = token.cloned();
    by_key.cancellation = token.cloned();
    by_id.cancellation = token.cloned();
    extend.cancellation = token.cloned();
    release.cancellation = token.cloned();

    let backend = client.backend();
    let mut errors = Vec::new();
    errors.extend(fails("acquire", backend.acquire(acquire).await, |_| false)?);
    errors.extend(backend.is_locked(is_locked).await.err());
    errors.extend(backend.lookup(by_key).await.err());
    errors.extend(fails("lookup by lock id", backend.lookup(by_id).await, Option::is_none)?);
    errors.extend(fails("extend", backend.extend(extend).await, |answer| !answer.is_extended())?);
    let released = backend.release(release).await;
    errors.extend(fails("release", released, |answer| !answer.is_released())?);
    Ok(errors)
}

/// The error of an operation, which may also have an answer that does no harm.
fn fails<T: Debug>(
    operation: &str,
    answer: Result<T, LockError>,
    is_harmless: impl Fn(&T) -> bool,
) -> Result<Option<LockError>, Stop> {
    match answer {
        Err(error) => Ok(Some(error)),
        Ok(answer) if is_harmless(&answer) => Ok(None),
        Ok(answer) => Err(Stop::failed(format!("{operation} answered {answer:?}"))),
    }
}

fn internal<T: Debug>(operation: &str, answer: Result<T, LockError>) -> Outcome {
    match answer {
        Err(error) => {
            ensure_eq!(error.code(), ErrorCode::Internal, "the code of {operation}: {error}");
            Ok(())
        }
        Ok(answer) => {
            Err(Stop::failed(format!("{operation} on a corrupt record answered {answer:?}")))
        }
    }
}
