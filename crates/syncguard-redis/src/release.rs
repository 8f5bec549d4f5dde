//! Releasing a lock.

use syncguard_core::authoring::planted::is_planted;
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{Key, LockError, LockId, NotHeld, ReleaseResult, Timestamp};

use crate::client::OnLoss;
use crate::driver::{Call, millis};
use crate::find_by_id::{self, Found};
use crate::inner::Inner;
use crate::names::Section;
use crate::{reply, scripts};

/// Sends one release, bounded by the command timeout. The future may outlive its caller.
pub(crate) async fn release(
    inner: &Inner,
    request: &ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let hint = request.key_hint.as_ref();
    let in_section =
        |section| async move { Ok(attempt(inner, section, request.lock_id, hint).await?.0) };
    let released = find_by_id::find(inner, hint, in_section).await;
    released.map_err(|error| error.with_lock_id(request.lock_id))
}

impl Found for ReleaseResult {
    fn is_found(&self) -> bool {
        *self != Self::NotHeld(NotHeld::NotFound)
    }
}

/// Releases a lock in this section. If there was nothing to release, the result has the server's time.
pub(crate) async fn attempt(
    inner: &Inner,
    section: &Section,
    lock_id: LockId,
    hint: Option<&Key>,
) -> Result<(ReleaseResult, Option<Timestamp>), LockError> {
    let call = |deadline: Timestamp| {
        Ok(Call {
            script: &scripts::RELEASE,
            keys: find_by_id::names(section, &lock_id, hint)?,
            arguments: vec![lock_id.expose().into(), millis(deadline)],
        })
    };
    let target = section.target();
    let answer = inner.write(target, call, None, OnLoss::Again, |_, _| Ok(())).await;
    let released = answer.and_then(|answer| {
        // After the answer "not held", an earlier sending may have released the lock.
        let answer = if is_planted("forgotten-copy") {
            answer
        } else {
            answer.final_answer(reply::is_released)?
        };
        let (result, time) = reply::released(answer.value)?;
        if let Some(time) = time {
            inner.clock(target).learn(answer.sent, time);
        }
        Ok((result, time))
    });
    released.map_err(|error| error.with_lock_id(lock_id))
}
