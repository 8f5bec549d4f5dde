//! Taking a lock.

use std::sync::Arc;

use syncguard_core::{
    AcquireRequest, AcquireResult, Acquired, CancellationToken, Fence, LockError, Timestamp, cancel,
};

use crate::attempts::Attempts;
use crate::backend::Inner;
use crate::document::{Counter, Record, put};
use crate::error::Fault;
use crate::layout::Names;
use crate::memo::Known;

/// One read and one commit; the commit's preconditions cover everything the decision was based on.
///
/// Once the caller is `gone` no commit is sent any more: what is not taken need not be given back.
pub(crate) async fn acquire(
    inner: Arc<Inner>,
    request: AcquireRequest,
    gone: CancellationToken,
) -> Result<AcquireResult, LockError> {
    let subject = |error: LockError| error.with_key(&request.key).with_lock_id(request.lock_id);
    let names = inner.layout.names(&request.key).map_err(subject)?;
    let mut attempts = inner.attempts();
    loop {
        match once(&inner, &request, &names, &attempts, &gone).await {
            Ok(result) => return Ok(result),
            Err(fault) => attempts.again(fault).await.map_err(subject)?,
        }
    }
}

async fn once(
    inner: &Inner,
    request: &AcquireRequest,
    names: &Names,
    attempts: &Attempts,
    gone: &CancellationToken,
) -> Result<AcquireResult, Fault> {
    cancel::check(Some(gone))?;
    let documents = [names.lock.as_str(), names.fence.as_str()];
    let [lock, counter] =
        inner.client.read(&inner.layout, documents, attempts.call_deadline()).await?;
    let lock = lock.map(Record::read).transpose()?;
    let now = inner.now()?;
    if let Some(held) = lock.as_ref().filter(|lock| lock.is_live(now)) {
        if held.lock_id == request.lock_id {
            // Ours already: the answer to an earlier commit was lost.
            return Ok(granted(inner, request, held));
        }
        inner.check_clock()?;
        return Ok(AcquireResult::Locked);
    }
    inner.check_clock()?;
    let counter = counter.map(Counter::read).transpose()?;
    let fence = next_fence(lock.as_ref(), counter.as_ref(), request)?;
    let expires_at = now.plus(request.ttl)?;
    cancel::check(Some(gone))?;
    take(inner, request, names, attempts, (lock, counter), (now, expires_at), fence).await?;
    fence.warn_near_limit("firestore", &request.key);
    Ok(AcquireResult::Acquired(Acquired::new(request.lock_id, expires_at, fence)))
}

/// The lock and the counter together, or neither, if both are as they were read.
///
/// Both preconditions are needed. With the lock's alone, a lock that was taken and released since
/// the read is as absent as before, but its fence has been used.
async fn take(
    inner: &Inner,
    request: &AcquireRequest,
    names: &Names,
    attempts: &Attempts,
    seen: (Option<Record>, Option<Counter>),
    times: (Timestamp, Timestamp),
    fence: Fence,
) -> Result<(), Fault> {
    let (key, lock_id) = (&request.key, request.lock_id);
    let lock = Record::document(names.lock.clone(), key, lock_id, times, fence);
    let counter = Counter::document(names.fence.clone(), key, fence);
    let writes = vec![
        put(lock, seen.0.map(|lock| lock.version)),
        put(counter, seen.1.map(|counter| counter.version)),
    ];
    let answer = inner.commit(writes, attempts).await?;
    inner.remember(lock_id, names.lock.clone(), answer, times.1);
    Ok(())
}

fn granted(inner: &Inner, request: &AcquireRequest, held: &Record) -> AcquireResult {
    let known = Known { version: held.version.clone(), expires_at: held.expires_at };
    inner.memo.remember(request.lock_id, known);
    AcquireResult::Acquired(Acquired::new(request.lock_id, held.expires_at, held.fence))
}

/// One above everything that is known of the key.
fn next_fence(
    lock: Option<&Record>,
    counter: Option<&Counter>,
    request: &AcquireRequest,
) -> Result<Fence, LockError> {
    let counted = counter.map_or(Fence::ZERO, |counter| counter.last);
    let carried = lock.map_or(Fence::ZERO, |lock| lock.fence);
    if carried > counted {
        tracing::error!(
            key = %request.key.hash_id(),
            "the fence counter of this key is behind its last lock: was it deleted, by a TTL policy?"
        );
    }
    counted.max(carried).next()
}
