//! Asking whether a key is locked.

use syncguard_core::authoring::CLEAN_UP_GUARD;
use syncguard_core::{Key, LockError};

use crate::driver::Call;
use crate::inner::Inner;
use crate::words::Word;
use crate::{reply, scripts};

pub(crate) async fn is_locked(inner: &Inner, key: &Key) -> Result<bool, LockError> {
    let Inner { layout, connections, .. } = inner;
    let script = &scripts::IS_LOCKED;
    inner.refuse_node_of_cluster().await?;
    let section = layout.section_of(key)?;
    let name = section.lock_name(key)?;
    let guard = u64::try_from(CLEAN_UP_GUARD.as_millis()).unwrap_or(u64::MAX);
    let keys = || [name.as_str().into()];
    let answer = match section.index_lead() {
        Some(lead) if inner.cleanup_in_is_locked => {
            let call =
                || Ok(Call { script, keys: keys(), arguments: [lead.into(), Word::Number(guard)] });
            connections.read(section.at(), call).await?
        }
        _ => {
            let call = || Ok(Call { script, keys: keys(), arguments: [] });
            connections.read(section.at(), call).await?
        }
    };
    reply::locked(answer)
}
