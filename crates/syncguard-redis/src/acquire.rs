//! Taking a lock.

use fred::types::Value;
use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::{AcquireRequest, AcquireResult, Holder, TIME_TOLERANCE};
use syncguard_core::{LockError, Timestamp, Ttl};

use crate::client::OnLoss;
use crate::driver::{Call, millis, number};
use crate::inner::{Answer, Inner};
use crate::names::Section;
use crate::{names, release, reply, scripts};

/// Sends one acquire, bounded by the operation timeout. The future may outlive its caller.
pub(crate) async fn acquire(
    inner: &Inner,
    request: &AcquireRequest,
    caller: &Caller,
) -> Result<AcquireResult, LockError> {
    let result = attempt(inner, request, caller).await;
    result.map_err(|error| error.with_key(&request.key).with_lock_id(request.lock_id))
}

async fn attempt(
    inner: &Inner,
    request: &AcquireRequest,
    caller: &Caller,
) -> Result<AcquireResult, LockError> {
    inner.enforce_durability().await?;
    let section = inner.layout.section_of(&request.key)?;
    let holder = inner.client_state.holder_of(request);
    let call = |deadline| call(section, request, holder, deadline);
    let sends = |deadline, bound| {
        caller.check()?;
        caller.sends(deadline, bound);
        Ok(())
    };
    let answer = inner.write(section.target(), call, inner.wait_replicas, OnLoss::Fail, sends);
    let Answer { value, replicated, sent, .. } = answer.await?.final_answer(|_| false)?;
    let granted = reply::acquired(value, request.lock_id)?;
    if let AcquireResult::Acquired(acquired) = &granted.result {
        if granted.is_fresh {
            inner.learn_from_expiry(section.target(), sent, acquired.expires_at, request.ttl);
        }
        acquired.fence.warn_near_limit("redis", &request.key);
        if let Err(shortfall) = replicated {
            return Err(Box::pin(give_back(inner, section, request, shortfall)).await);
        }
    }
    Ok(granted.result)
}

fn call(
    section: &Section,
    request: &AcquireRequest,
    holder: &Holder,
    deadline: Timestamp,
) -> Result<Call, LockError> {
    let names = section.names(&request.key)?;
    let index = section.index_name(&request.lock_id)?;
    let head = names::head(Some(&request.key), request.lock_id);
    let call = Call::new(&scripts::ACQUIRE).keys([names.lock, names.fence, index]);
    let arguments = [head.into(), life(request.ttl), millis(deadline), for_people(holder).into()];
    let window = request.fence_window.map(|window| {
        let not_before = window.not_before().map_or(0, Timestamp::as_millis);
        [window.at_least().get(), window.below().get(), not_before].map(number)
    });
    Ok(call.arguments(arguments).arguments(window.into_iter().flatten()))
}

/// The fields for people, as the inside of a JSON object.
fn for_people(holder: &Holder) -> String {
    let mut inside = String::with_capacity(64);
    for (name, text) in holder.fields() {
        let separator = if inside.is_empty() { "\"" } else { ",\"" };
        inside.extend([separator, name, "\":\"", &names::json_inside(text), "\""]);
    }
    inside
}

/// The lifetime of the records, in ms from the moment the script runs.
pub(crate) fn life(ttl: Ttl) -> Value {
    // Without the tolerance, Redis would drop a lock at its expiry, and rivals would get it too early.
    let life = ttl.as_duration() + TIME_TOLERANCE;
    number(u64::try_from(life.as_millis()).unwrap_or(u64::MAX))
}

/// Releases a lock that too few replicas have. If the release fails, the clean-up tries it again in the
/// background.
async fn give_back(
    inner: &Inner,
    section: &Section,
    request: &AcquireRequest,
    shortfall: LockError,
) -> LockError {
    match release::attempt(inner, section, request.lock_id, Some(&request.key), None).await {
        Ok(_) => shortfall,
        Err(_) => shortfall.with_unknown_outcome(),
    }
}
