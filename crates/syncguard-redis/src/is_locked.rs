//! Whether a key is locked.

use syncguard_core::authoring::CLEAN_UP_GUARD;
use syncguard_core::{Key, LockError};

use crate::client::Call;
use crate::inner::Inner;
use crate::{reply, scripts};

pub(crate) async fn is_locked(inner: &Inner, key: &Key) -> Result<bool, LockError> {
    let Inner { layout, connections, .. } = inner;
    let script = &scripts::IS_LOCKED;
    let name = layout.lock_name(key)?;
    let guard = i64::try_from(CLEAN_UP_GUARD.as_millis()).unwrap_or(i64::MAX);
    let keys = || [name.as_str().into()];
    let answer = match layout.index_lead() {
        Some(lead) if inner.cleanup_in_is_locked => {
            let call = || Ok(Call { script, keys: keys(), arguments: [lead.into(), guard.into()] });
            connections.read(call).await?
        }
        _ => {
            let call = || Ok(Call { script, keys: keys(), arguments: [] });
            connections.read(call).await?
        }
    };
    reply::locked(answer)
}
