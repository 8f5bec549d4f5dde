//! Giving a lock back.

use syncguard_core::{LockError, LockId, ReleaseRequest, ReleaseResult, cancel};

use crate::backend::RedisBackend;
use crate::client::Call;
use crate::{scripts, wire};

pub(crate) async fn release(
    backend: &RedisBackend,
    request: ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let owned = backend.clone();
    let lock_id = request.lock_id;
    let attempt = async move { attempt(&owned, lock_id).await };
    cancel::finish(request.cancellation.as_ref(), attempt).await
}

/// One release, bounded, to its end.
pub(crate) async fn attempt(
    backend: &RedisBackend,
    lock_id: LockId,
) -> Result<ReleaseResult, LockError> {
    let call = || {
        Ok(Call {
            script: &scripts::RELEASE,
            keys: [backend.layout().index_name(lock_id)?.into()],
            arguments: [lock_id.expose().into()],
        })
    };
    let answer = backend.connections().run(call).await;
    answer.and_then(wire::released).map_err(|error| error.with_lock_id(lock_id))
}
