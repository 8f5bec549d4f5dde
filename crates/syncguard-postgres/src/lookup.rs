//! Looks up a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::{LookupBy, LookupRequest};
use syncguard_core::{Key, LockError, LockId, LockInfo};
use tokio_postgres::Row;

use crate::inner::Inner;
use crate::names;
use crate::pool::{Lane, Param};
use crate::record::Record;

/// Looks up a live lock.
pub(crate) async fn lookup(
    inner: Arc<Inner>,
    request: LookupRequest,
    caller: Caller,
) -> Result<Option<LockInfo>, LockError> {
    let row = match &request.by {
        LookupBy::Key(key) => row_of_key(&inner, key, &caller).await?,
        LookupBy::LockId(lock_id) => row_of_lock_id(&inner, *lock_id, &caller).await?,
    };
    let info = row.map_or(Ok(None), |row| Record::info_from_row(&row))?;
    Ok(match request.by {
        LookupBy::LockId(lock_id) => {
            info.filter(|info| info.lock_id.hash_id() == lock_id.hash_id())
        }
        LookupBy::Key(_) => info,
    })
}

/// Returns the record of a key, live or expired.
pub(crate) async fn by_key(
    inner: &Inner,
    key: &Key,
    caller: &Caller,
) -> Result<Option<Record>, LockError> {
    let row = row_of_key(inner, key, caller).await?;
    row.map_or(Ok(None), |row| Record::from_row(&row))
}

async fn row_of_key(inner: &Inner, key: &Key, caller: &Caller) -> Result<Option<Row>, LockError> {
    let storage_key = names::lock_name(key)?;
    let answer = inner
        .query(
            Lane::Contender,
            caller,
            &inner.statements.lookup_by_key,
            &[Param::Text(storage_key.expose())],
        )
        .await
        .map_err(|error| error.with_key(key))?;
    Ok(answer.row)
}

async fn row_of_lock_id(
    inner: &Inner,
    lock_id: LockId,
    caller: &Caller,
) -> Result<Option<Row>, LockError> {
    let answer = inner
        .query(
            Lane::Contender,
            caller,
            &inner.statements.lookup_by_lock_id,
            &[Param::Text(lock_id.expose())],
        )
        .await
        .map_err(|error| error.with_lock_id(lock_id))?;
    Ok(answer.row)
}
