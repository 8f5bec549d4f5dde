//! The details of a live lock.

use syncguard_core::{Key, LockError, LockId, LockInfo, LookupBy, LookupRequest, cancel};

use crate::backend::RedisBackend;
use crate::client::Call;
use crate::{scripts, wire};

pub(crate) async fn lookup(
    backend: &RedisBackend,
    request: LookupRequest,
) -> Result<Option<LockInfo>, LockError> {
    let cancellation = request.cancellation.as_ref();
    match &request.by {
        LookupBy::Key(key) => cancel::read(cancellation, by_key(backend, key))
            .await
            .map_err(|error| error.with_key(key)),
        LookupBy::LockId(lock_id) => cancel::read(cancellation, by_lock_id(backend, *lock_id))
            .await
            .map_err(|error| error.with_lock_id(*lock_id)),
    }
}

async fn by_key(backend: &RedisBackend, key: &Key) -> Result<Option<LockInfo>, LockError> {
    let name = backend.layout().lock_name(key)?;
    let call = || {
        Ok(Call { script: &scripts::LOOKUP_BY_KEY, keys: [name.as_str().into()], arguments: [] })
    };
    wire::found(backend.connections().run(call).await?, &name)
}

async fn by_lock_id(
    backend: &RedisBackend,
    lock_id: LockId,
) -> Result<Option<LockInfo>, LockError> {
    let name = backend.layout().index_name(lock_id)?;
    let call = || {
        Ok(Call {
            script: &scripts::LOOKUP_BY_ID,
            keys: [name.as_str().into()],
            arguments: [lock_id.expose().into()],
        })
    };
    wire::found(backend.connections().run(call).await?, &name)
}
