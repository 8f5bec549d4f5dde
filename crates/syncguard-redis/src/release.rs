//! Releasing a lock.

use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{Fence, Key, LockError, LockId, NotHeld, ReleaseResult, Timestamp};

use crate::client::OnLoss;
use crate::driver::{Call, millis, number};
use crate::find_by_id::{self, Found};
use crate::inner::Inner;
use crate::names::Section;
use crate::{names, reply, scripts};

/// Sends one release, bounded by the operation timeout. The future may outlive its caller.
pub(crate) async fn release(
    inner: &Inner,
    request: &ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let hint = request.key_hint.as_ref();
    let in_section = |section| async move {
        Ok(attempt(inner, section, request.lock_id, hint, request.raised()).await?.0)
    };
    let released = find_by_id::find(inner, hint, in_section).await;
    released.map_err(|error| error.with_lock_id(request.lock_id))
}

impl Found for ReleaseResult {
    fn is_found(&self) -> bool {
        *self != Self::NotHeld(NotHeld::NotFound)
    }
}

/// Releases a lock in this section, and raises this counter in the same step. If there was nothing to release, the result has the server's time.
pub(crate) async fn attempt(
    inner: &Inner,
    section: &Section,
    lock_id: LockId,
    hint: Option<&Key>,
    raised: Option<(&Key, Fence)>,
) -> Result<(ReleaseResult, Option<Timestamp>), LockError> {
    let call = |deadline: Timestamp| {
        let (index, lock) = find_by_id::names(section, &lock_id, hint)?;
        let counter = raised.map(|(key, _)| section.names(key)).transpose()?;
        let call = Call::new(&scripts::RELEASE).keys([index]).keys(lock);
        let call = call.keys(counter.map(|names| names.fence));
        let arguments = [names::head(hint, lock_id).into(), millis(deadline)];
        let at_least = raised.map(|(_, at_least)| number(at_least.get()));
        Ok(call.arguments(arguments).arguments(at_least))
    };
    let target = section.target();
    // A fence has to survive a failover, and the end of a lock need not.
    let wait = raised.and(inner.wait_replicas);
    let answer = inner.write(target, call, wait, OnLoss::Again, |_, _| Ok(())).await;
    let released = answer.and_then(|answer| {
        // After the answer "not held", an earlier sending may have released the lock.
        let answer = answer.final_answer(reply::is_released)?;
        let (result, time) = reply::released(answer.value)?;
        if let Some(time) = time {
            inner.clock(target).learn(answer.sent, time);
        }
        answer.replicated.map_err(LockError::with_unknown_outcome)?;
        Ok((result, time))
    });
    released.map_err(|error| error.with_lock_id(lock_id))
}
