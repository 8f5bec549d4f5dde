//! Looking up the details of a live lock.

use syncguard_core::authoring::Attempt;
use syncguard_core::contract::{LookupBy, LookupRequest};
use syncguard_core::{LockError, LockInfo};

use crate::find::find;
use crate::inner::Inner;

pub(crate) async fn lookup(
    inner: &Inner,
    request: &LookupRequest,
) -> Result<Option<LockInfo>, LockError> {
    let once = async |attempt: Attempt| {
        Ok(match &request.by {
            LookupBy::Key(key) => {
                let held = inner.lock(key, &attempt).await?;
                let now = inner.time().await?.earliest;
                held.filter(|held| held.record.is_live(now))
            }
            LookupBy::LockId(id) => {
                find(inner, *id, request.key_hint.as_ref(), &attempt).await?.ok()
            }
        })
    };
    let found = inner.attempts().run(once).await;
    found
        .map(|held| held.map(|held| held.record.into_info()))
        .map_err(|error| request.by.name_in(error))
}
