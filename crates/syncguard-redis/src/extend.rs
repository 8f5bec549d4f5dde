//! Extending a lock.

use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError, NotHeld, Timestamp};

use crate::acquire::lifetimes;
use crate::client::OnLoss;
use crate::driver::{Call, millis};
use crate::find_by_id::{self, Found};
use crate::inner::{Answer, Inner};
use crate::names::Section;
use crate::{reply, scripts};

/// Sends one extend, bounded by the command timeout. The future may outlive its caller.
pub(crate) async fn extend(
    inner: &Inner,
    request: &ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let in_section = |section| attempt(inner, section, request);
    let extended = find_by_id::find(inner, request.key_hint.as_ref(), in_section).await;
    extended.map_err(|error| error.with_lock_id(request.lock_id))
}

impl Found for ExtendResult {
    fn is_found(&self) -> bool {
        *self != Self::NotHeld(NotHeld::NotFound)
    }
}

async fn attempt(
    inner: &Inner,
    section: &Section,
    request: &ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let call = |deadline: Timestamp| {
        let [ttl, life] = lifetimes(request.ttl);
        let expected = request.expected_expiry.map_or_else(|| "".into(), millis);
        Ok(Call {
            script: &scripts::EXTEND,
            keys: find_by_id::names(section, &request.lock_id, request.key_hint.as_ref())?,
            arguments: vec![request.lock_id.expose().into(), ttl, life, millis(deadline), expected],
        })
    };
    let target = section.target();
    let answer = inner.write(target, call, inner.wait_replicas, OnLoss::Fail, |_, _| Ok(()));
    let Answer { value, replicated, sent, .. } = answer.await?.final_answer(|_| false)?;
    let (result, time) = reply::extended(value)?;
    if let Some(time) = time {
        inner.clock(target).learn(sent, time);
    }
    if let ExtendResult::Extended { expires_at } = result {
        inner.learn_from_expiry(target, sent, expires_at, request.ttl);
        // The master has the new expiry, but too few replicas do: the outcome is unknown.
        replicated.map_err(LockError::with_unknown_outcome)?;
    }
    Ok(result)
}
