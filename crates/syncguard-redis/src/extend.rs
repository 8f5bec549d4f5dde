//! Extending locks.

use std::sync::Arc;

use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError, NotHeld, Timestamp};

use crate::acquire::life;
use crate::client::OnLoss;
use crate::driver::{Call, millis};
use crate::find_by_id::{self, Found};
use crate::inner::{Answer, Inner};
use crate::names::{self, Section};
use crate::{reply, scripts};

/// Sends one extend, bounded by the operation timeout. The future may outlive its caller.
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
    let Answer { value, replicated, sent, .. } =
        send(inner, section, std::slice::from_ref(request)).await?;
    let (result, time) = reply::extended(value)?;
    if let Some(time) = time {
        inner.clock(section.target()).learn(sent, time);
    }
    if let ExtendResult::Extended { expires_at } = result {
        inner.learn_from_expiry(section.target(), sent, expires_at, request.ttl);
        // The master has the new expiry, but too few replicas do: the outcome is unknown.
        replicated.map_err(LockError::with_unknown_outcome)?;
    }
    Ok(result)
}

/// Extends locks of the section of this number by one script, in the order of the requests: their new expiries, and `None` for each
/// lock that stays as it is, for whatever reason. [`extend`] says more about it.
///
/// There are at least two requests, for different locks. A lock without a key hint stays as it is.
pub(crate) async fn extend_many(
    inner: Arc<Inner>,
    section: usize,
    requests: Vec<ExtendRequest>,
) -> Result<Vec<Option<Timestamp>>, LockError> {
    let Some(section) = inner.layout.sections().get(section) else {
        return Ok(Vec::new());
    };
    inner.refuse_cluster_node().await?;
    let Answer { value, replicated, sent, .. } = send(&inner, section, &requests).await?;
    let extended = reply::all_extended(value, requests.len())?;
    if let Some((Some(expires_at), request)) =
        extended.iter().zip(&requests).find(|one| one.0.is_some())
    {
        inner.learn_from_expiry(section.target(), sent, *expires_at, request.ttl);
        replicated.map_err(LockError::with_unknown_outcome)?;
    }
    Ok(extended)
}

async fn send(
    inner: &Inner,
    section: &Section,
    requests: &[ExtendRequest],
) -> Result<Answer, LockError> {
    let call = |deadline: Timestamp| {
        let mut call = Call::new(&scripts::EXTEND);
        for request in requests {
            let (index, lock) =
                find_by_id::names(section, &request.lock_id, request.key_hint.as_ref())?;
            // No lock has the name of an index entry, so this lock stays as it is.
            let lock = lock.or_else(|| (requests.len() > 1).then(|| index.clone()));
            call = call.keys([index]).keys(lock);
        }
        let arguments = requests.iter().flat_map(|request| {
            let head = names::head(request.key_hint.as_ref(), request.lock_id).into();
            let expected = request.expected_expiry.map_or_else(|| "".into(), millis);
            [head, life(request.ttl), expected]
        });
        Ok(call.arguments([millis(deadline)]).arguments(arguments))
    };
    let target = section.target();
    let answer = inner.write(target, call, inner.wait_replicas, OnLoss::Fail, |_, _| Ok(()));
    answer.await?.final_answer(|_| false)
}
