//! Releasing a lock.

use syncguard_core::authoring::planted::is_planted;
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{LockError, LockId, NotHeld, ReleaseResult, Timestamp};

use crate::driver::{Call, millis};
use crate::find_by_id::{self, Found};
use crate::inner::{Inner, sent_twice};
use crate::names::Section;
use crate::{reply, scripts};

/// Sends one release, bounded by the command timeout. The future may outlive its caller.
pub(crate) async fn release(
    inner: &Inner,
    request: &ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let in_section = |section| async move {
        let released = attempt(inner, section, request.lock_id).await?;
        let is_in_doubt = released.was_doubled && !released.result.is_found();
        // The other copy of this release may have been the one that found the lock.
        if is_in_doubt && !is_planted("forgotten-copy") {
            return Err(sent_twice());
        }
        Ok(released.result)
    };
    let released = find_by_id::find(inner, request.key_hint.as_ref(), in_section).await;
    released.map_err(|error| error.with_lock_id(request.lock_id))
}

impl Found for ReleaseResult {
    fn is_found(&self) -> bool {
        *self != Self::NotHeld(NotHeld::NotFound)
    }
}

/// The answer to a release.
pub(crate) struct Released {
    pub(crate) result: ReleaseResult,
    /// The server's time, if there was nothing to release.
    pub(crate) time: Option<Timestamp>,
    /// True if fred may have sent the release twice.
    was_doubled: bool,
}

/// Releases a lock in this section.
pub(crate) async fn attempt(
    inner: &Inner,
    section: &Section,
    lock_id: LockId,
) -> Result<Released, LockError> {
    let call = |deadline: Timestamp| {
        Ok(Call {
            script: &scripts::RELEASE,
            keys: vec![section.index_name(&lock_id)?.into()],
            arguments: vec![lock_id.expose().into(), millis(deadline)],
        })
    };
    let target = section.target();
    let answer = inner.write(target, call, None, |_, _| Ok(())).await;
    let released = answer.and_then(|answer| {
        let (result, time) = reply::released(answer.value)?;
        if let Some(time) = time {
            inner.clock(target).learn(answer.sent, time);
        }
        Ok(Released { result, time, was_doubled: answer.was_doubled })
    });
    released.map_err(|error| error.with_lock_id(lock_id))
}
