//! Giving a lock back.

use syncguard_core::{LockError, LockId, ReleaseResult, Timestamp};

use crate::client::Call;
use crate::inner::Inner;
use crate::{reply, scripts};

/// One release, bounded. It may outlive its caller.
pub(crate) async fn release(inner: &Inner, lock_id: LockId) -> Result<ReleaseResult, LockError> {
    Ok(attempt(inner, lock_id).await?.0)
}

/// A release, with the server's time if there was nothing to release.
pub(crate) async fn attempt(
    inner: &Inner,
    lock_id: LockId,
) -> Result<(ReleaseResult, Option<Timestamp>), LockError> {
    let call = |deadline: Timestamp| {
        Ok(Call {
            script: &scripts::RELEASE,
            keys: [inner.layout.index_name(&lock_id)?],
            arguments: [lock_id.expose().into(), deadline.into()],
        })
    };
    let answer = inner.write(call, None, |_, _| Ok(())).await;
    let released = answer.and_then(|answer| {
        let (result, time) = reply::released(answer.value)?;
        if let Some(time) = time {
            inner.clock.learn(answer.sent, time);
        }
        Ok((result, time))
    });
    released.map_err(|error| error.with_lock_id(lock_id))
}
