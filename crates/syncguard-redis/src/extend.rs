//! Letting a lock live longer.

use syncguard_core::{ExtendRequest, ExtendResult, LockError, LockId, Ttl, cancel};

use crate::acquire::lifetimes;
use crate::backend::RedisBackend;
use crate::client::Call;
use crate::{scripts, wire};

pub(crate) async fn extend(
    backend: &RedisBackend,
    request: ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let owned = backend.clone();
    let ExtendRequest { lock_id, ttl, .. } = request;
    let attempt = async move {
        attempt(&owned, lock_id, ttl).await.map_err(|error| error.with_lock_id(lock_id))
    };
    cancel::finish(request.cancellation.as_ref(), attempt).await
}

async fn attempt(
    backend: &RedisBackend,
    lock_id: LockId,
    ttl: Ttl,
) -> Result<ExtendResult, LockError> {
    let call = || {
        let [ttl, life] = lifetimes(ttl);
        Ok(Call {
            script: &scripts::EXTEND,
            keys: [backend.layout().index_name(lock_id)?.into()],
            arguments: [lock_id.expose().into(), ttl, life],
        })
    };
    let connections = backend.connections();
    let Some(wait) = backend.wait_replicas() else {
        return wire::extended(connections.run(call).await?);
    };
    let (answer, replicated) = connections.run_replicated(call, wait).await?;
    let result = wire::extended(answer)?;
    match replicated {
        // The master has it, so it may well hold; only it does not count.
        Err(shortfall) if result.is_extended() => Err(shortfall.with_unknown_outcome()),
        _ => Ok(result),
    }
}
