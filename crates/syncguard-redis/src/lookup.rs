//! The details of a live lock.

use syncguard_core::{Key, LockError, LockId, LockInfo};

use crate::client::Call;
use crate::inner::Inner;
use crate::{reply, scripts};

pub(crate) async fn by_key(inner: &Inner, key: &Key) -> Result<Option<LockInfo>, LockError> {
    let name = inner.layout.lock_name(key)?;
    let call = || {
        Ok(Call { script: &scripts::LOOKUP_BY_KEY, keys: [name.as_str().into()], arguments: [] })
    };
    reply::found(inner.connections.read(call).await?, &name)
}

pub(crate) async fn by_lock_id(
    inner: &Inner,
    lock_id: LockId,
) -> Result<Option<LockInfo>, LockError> {
    let name = inner.layout.index_name(&lock_id)?.into_text();
    let call = || {
        Ok(Call {
            script: &scripts::LOOKUP_BY_ID,
            keys: [name.as_ref().into()],
            arguments: [lock_id.expose().into()],
        })
    };
    reply::found(inner.connections.read(call).await?, &name)
}
