//! Asking whether a key is locked.

use syncguard_core::authoring::CLEAN_UP_GUARD;
use syncguard_core::{Key, LockError};

use crate::driver::{Call, number};
use crate::inner::Inner;
use crate::{reply, scripts};

pub(crate) async fn is_locked(inner: &Inner, key: &Key) -> Result<bool, LockError> {
    let Inner { layout, connections, .. } = inner;
    inner.refuse_cluster_node().await?;
    let section = layout.section_of(key)?;
    let name = section.lock_name(key)?;
    let guard = u64::try_from(CLEAN_UP_GUARD.as_millis()).unwrap_or(u64::MAX);
    let call = || {
        let clean_up = section.index_lead().filter(|_| inner.cleanup_in_is_locked);
        let arguments = clean_up.map(|lead| [lead.into(), number(guard)]);
        let call = Call::new(&scripts::IS_LOCKED).keys([name.as_str()]);
        Ok(call.arguments(arguments.into_iter().flatten()))
    };
    reply::locked(connections.read(section.target(), call).await?)
}
