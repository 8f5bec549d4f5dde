//! Takes one lock away from its holder, and raises the fence of its key.

use std::time::Duration;

use serde_json::{Value, json};
use syncguard::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard::diagnostics::get_by_key;
use syncguard::{DynBackend, Fence, Key, LockBackend as _, LockInfo, ReleaseResult};

use crate::exit::{Failure, Status};
use crate::time::{human, until};

/// The end of a try to take a lock away.
pub(super) enum Outcome {
    /// The lock had ended by itself.
    WasFree,
    /// Its holder has lost it. The new fence is `None` if another process has the lock by now, since
    /// its acquire has raised the fence.
    Released(Option<Fence>),
    /// The lock is still held, for this reason.
    Held(Failure),
}

pub(super) async fn take_away(backend: &DynBackend, info: &LockInfo) -> Result<Outcome, Failure> {
    let key = info.key.clone();
    let request = ReleaseRequest::new(info.lock_id).with_key_hint(key.clone());
    let released = backend.release(request).await?;
    if !matches!(released, ReleaseResult::Released) {
        return explain_refusal(backend, key, info).await;
    }
    Ok(Outcome::Released(raise_fence(backend, key, info.fence).await?))
}

/// Explains why the store released nothing: the lock has ended meanwhile, or the store does not
/// find the lock by its id.
async fn explain_refusal(
    backend: &DynBackend,
    key: Key,
    before: &LockInfo,
) -> Result<Outcome, Failure> {
    let Some(now) = get_by_key(backend, key).await? else { return Ok(Outcome::WasFree) };
    let left = human(until(now.expires_at));
    Ok(Outcome::Held(if now.lock_id == before.lock_id {
        let says = format!(
            "the lock is still held, and cannot be taken away: the store has its record, but does not find it by \
             its lock id, so a part of its data is missing. Nobody can renew it either: it ends by itself in {left}"
        );
        Failure::new(Status::INTERNAL, says)
    } else {
        let says = "the lock has ended by itself meanwhile, and another process holds it now; nothing was taken \
                    away. Run this again if that process is meant too";
        Failure::new(Status::CONFLICT, says)
    }))
}

/// Raises the fence with an acquire of its own. `None` if another process has the lock by now,
/// since its acquire has raised the fence.
async fn raise_fence(
    backend: &DynBackend,
    key: Key,
    before: Fence,
) -> Result<Option<Fence>, Failure> {
    let request = AcquireRequest::new(key.clone(), Duration::from_secs(5))?;
    match backend.acquire(request).await {
        Ok(AcquireResult::Acquired(acquired)) => {
            let _ = backend.release(ReleaseRequest::new(acquired.lock_id)).await?;
            Ok(Some(acquired.fence))
        }
        Ok(AcquireResult::Busy(_) | AcquireResult::Refused(_)) => Ok(None),
        // A store without room for a lock may have the room to raise a counter.
        Err(error) => {
            let Some(inventory) = backend.inventory() else { return Err(error.into()) };
            let raised = inventory.raise_counter(key, before.next()?).await;
            Ok(Some(raised.map_err(|_| error)?))
        }
    }
}

impl Outcome {
    pub(super) fn as_json(&self, key: &str, info: Option<&LockInfo>) -> Value {
        let (taken_from, fence) = match self {
            Self::Released(fence) => (info, *fence),
            Self::WasFree | Self::Held(_) => (None, None),
        };
        json!({
            "key": key,
            "released": taken_from.is_some(),
            "lockIdHash": taken_from.map(|info| info.lock_id.hash_id().to_string()),
            "oldFence": taken_from.map(|info| info.fence.to_string()),
            "newFence": fence.map(|fence| fence.to_string()),
        })
    }

    pub(super) fn as_text(&self, info: Option<&LockInfo>) -> String {
        match self {
            Self::WasFree => "the lock was free".to_owned(),
            Self::Released(Some(fence)) => format!(
                "released; fences up to {} are refused now, the counter is at {fence}",
                info.map_or_else(String::new, |info| info.fence.to_string())
            ),
            Self::Released(None) => {
                "released; another process has the lock already, with a higher fence".to_owned()
            }
            Self::Held(failure) => failure.to_string(),
        }
    }
}
