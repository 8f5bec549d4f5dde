//! Looking up the details of a live lock.

use std::sync::Arc;

use syncguard_core::contract::{LookupBy, LookupRequest};
use syncguard_core::{Key, LockError, LockInfo};

use crate::error::Fault;
use crate::find::find;
use crate::inner::Inner;
use crate::record::Held;
use crate::retry::Attempt;

pub(crate) async fn lookup(
    inner: Arc<Inner>,
    request: LookupRequest,
) -> Result<Option<LockInfo>, LockError> {
    let attempts = inner.attempts();
    match &request.by {
        LookupBy::Key(key) => {
            let found = attempts.run(|attempt| by_key(&inner, key, attempt)).await;
            found.map_err(|error| error.with_key(key))
        }
        LookupBy::LockId(id) => {
            let (inner, hint) = (&inner, request.key_hint.as_ref());
            let by_id = |attempt| async move { find(inner, *id, hint, &attempt).await };
            let found = attempts.run(by_id).await.map_err(|error| error.with_lock_id(*id))?;
            Ok(found.ok().map(|held| held.record.into_info()))
        }
    }
}

async fn by_key(inner: &Inner, key: &Key, attempt: Attempt) -> Result<Option<LockInfo>, Fault> {
    let name = inner.layout.lock(key);
    let [lock] = inner.read([&name], &attempt).await?;
    let held = lock.map(|lock| Held::read(&name, key.expose(), lock)).transpose()?;
    let now = inner.now()?;
    Ok(held.filter(|held| held.is_live(now)).map(|held| held.record.into_info()))
}
