//! Tells if a key is locked.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::IsLockedRequest;
use syncguard_core::{Key, LockError};
use tokio::runtime::Handle;

use crate::inner::Inner;
use crate::lookup;
use crate::names;
use crate::pool::{Lane, Param};
use crate::record::Record;

/// Tells if a key is locked, and deletes a stale lock if the options say so.
pub(crate) async fn is_locked(
    inner: Arc<Inner>,
    request: IsLockedRequest,
    caller: Caller,
) -> Result<bool, LockError> {
    let record = lookup::by_key(&inner, &request.key, &caller).await?;
    if inner.settings.cleanup_in_is_locked && record.as_ref().is_some_and(Record::is_stale) {
        // In the background, because the answer does not depend on the clean-up.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(clean_up(inner, request.key));
        }
    }
    Ok(record.is_some_and(|record| record.is_live()))
}

/// Deletes an expired lock. The statement checks again that it is expired.
async fn clean_up(inner: Arc<Inner>, key: Key) {
    let Ok(storage_key) = names::lock_name(&key) else {
        return;
    };
    let cleanup = &inner.statements.cleanup;
    let parameters = [Param::Text(storage_key.expose())];
    let result = inner.query(Lane::Contender, &Caller::new(None), cleanup, &parameters).await;
    if let Err(error) = result {
        tracing::debug!(%error, key_hash = %key.hash_id(), "an expired lock was not cleared away");
    }
}
