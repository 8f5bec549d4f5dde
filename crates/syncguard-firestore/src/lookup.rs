//! Looking up the details of a live lock.

use syncguard_core::authoring::Attempt;
use syncguard_core::contract::{LookupBy, LookupRequest};
use syncguard_core::{LockError, LockInfo};

use crate::by_lock_id;
use crate::document::Record;
use crate::inner::Inner;

pub(crate) async fn lookup(
    inner: &Inner,
    request: &LookupRequest,
) -> Result<Option<LockInfo>, LockError> {
    let once = async |attempt: Attempt| {
        Ok(match &request.by {
            LookupBy::Key(key) => {
                let lock = inner.lock(key, &attempt).await?;
                let now = inner.time()?.earliest;
                lock.filter(|lock| lock.is_live(now))
            }
            LookupBy::LockId(id) => {
                by_lock_id::find(inner, *id, request.key_hint.as_ref(), &attempt).await?.lock.ok()
            }
        })
    };
    let found = inner.attempts().run(once).await;
    found.map(|lock| lock.map(Record::into_info)).map_err(|error| request.by.name_in(error))
}
