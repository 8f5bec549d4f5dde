//! Looking up the details of a live lock.

use std::sync::Arc;

use syncguard_core::contract::{LookupBy, LookupRequest};
use syncguard_core::{Key, LockError, LockId, LockInfo};

use crate::by_lock_id;
use crate::document::Record;
use crate::error::Fault;
use crate::inner::Inner;
use crate::retry::Attempt;

pub(crate) async fn lookup(
    inner: Arc<Inner>,
    request: LookupRequest,
) -> Result<Option<LockInfo>, LockError> {
    let attempts = inner.attempts();
    match &request.by {
        LookupBy::Key(key) => {
            let subject = |error: LockError| error.with_key(key);
            let name = inner.layout.lock_name(key).map_err(subject)?;
            let found = attempts.run(|attempt| by_name(&inner, &name, attempt)).await;
            found.map_err(subject)
        }
        LookupBy::LockId(id) => {
            let hint = request.key_hint.as_ref();
            let found = attempts.run(|attempt| by_lock_id(&inner, *id, hint, attempt)).await;
            found.map_err(|error| error.with_lock_id(*id))
        }
    }
}

async fn by_name(inner: &Inner, name: &str, attempt: Attempt) -> Result<Option<LockInfo>, Fault> {
    let [lock] = inner.client.read(&inner.layout, [name], attempt.call_deadline()).await?;
    let lock = lock.map(Record::read).transpose()?;
    let now = inner.now()?;
    Ok(lock.filter(|lock| lock.is_live(now)).map(Record::into_info))
}

async fn by_lock_id(
    inner: &Inner,
    lock_id: LockId,
    hint: Option<&Key>,
    attempt: Attempt,
) -> Result<Option<LockInfo>, Fault> {
    let held = by_lock_id::find(inner, lock_id, hint, &attempt).await?;
    Ok(held.lock.ok().map(Record::into_info))
}
