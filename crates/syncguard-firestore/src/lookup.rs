//! The details of a live lock.

use std::sync::Arc;

use syncguard_core::{LockError, LockId, LockInfo, LookupBy, LookupRequest};

use crate::attempts::Attempts;
use crate::document::Record;
use crate::error::Fault;
use crate::held;
use crate::inner::Inner;

pub(crate) async fn lookup(
    inner: Arc<Inner>,
    request: LookupRequest,
) -> Result<Option<LockInfo>, LockError> {
    let mut attempts = inner.attempts();
    match &request.by {
        LookupBy::Key(key) => {
            let subject = |error: LockError| error.with_key(key);
            let name = inner.layout.lock_name(key).map_err(subject)?;
            loop {
                match by_name(&inner, &name, &attempts).await {
                    Ok(found) => return Ok(found),
                    Err(fault) => attempts.again(fault).await.map_err(subject)?,
                }
            }
        }
        LookupBy::LockId(lock_id) => loop {
            match by_lock_id(&inner, *lock_id, &attempts).await {
                Ok(found) => return Ok(found),
                Err(fault) => {
                    attempts.again(fault).await.map_err(|error| error.with_lock_id(*lock_id))?;
                }
            }
        },
    }
}

async fn by_name(
    inner: &Inner,
    name: &str,
    attempts: &Attempts,
) -> Result<Option<LockInfo>, Fault> {
    let [lock] = inner.client.read(&inner.layout, [name], attempts.call_deadline()).await?;
    let lock = lock.map(Record::read).transpose()?;
    let now = inner.now()?;
    Ok(lock.filter(|lock| lock.is_live(now)).map(Record::into_info))
}

async fn by_lock_id(
    inner: &Inner,
    lock_id: LockId,
    attempts: &Attempts,
) -> Result<Option<LockInfo>, Fault> {
    let held = held::find(inner, lock_id, attempts).await?;
    Ok(held.lock.ok().map(Record::into_info))
}
