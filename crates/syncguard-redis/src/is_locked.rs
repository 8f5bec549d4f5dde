//! Whether a key is locked.

use syncguard_core::{IsLockedRequest, Key, LockError, cancel};

use crate::backend::RedisBackend;
use crate::client::Call;
use crate::{scripts, wire};

pub(crate) async fn is_locked(
    backend: &RedisBackend,
    request: IsLockedRequest,
) -> Result<bool, LockError> {
    let read = read(backend, &request.key);
    let result = cancel::read(request.cancellation.as_ref(), read).await;
    result.map_err(|error| error.with_key(&request.key))
}

async fn read(backend: &RedisBackend, key: &Key) -> Result<bool, LockError> {
    let layout = backend.layout();
    let script = &scripts::IS_LOCKED;
    let name = layout.lock_name(key)?;
    let keys = || [name.as_str().into()];
    let connections = backend.connections();
    let answer = match layout.index_lead() {
        Some(lead) if backend.cleans_up() => {
            let call = || Ok(Call { script, keys: keys(), arguments: [lead.into()] });
            connections.run(call).await?
        }
        _ => {
            let call = || Ok(Call { script, keys: keys(), arguments: [] });
            connections.run(call).await?
        }
    };
    wire::locked(answer)
}
