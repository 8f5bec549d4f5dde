//! Extending a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError};

use crate::clock::Moment;
use crate::error::Failure;
use crate::inner::Inner;
use crate::operation::Operation;
use crate::record::Record;
use crate::store::Store;

pub(crate) async fn extend(
    inner: Arc<Inner>,
    request: ExtendRequest,
    caller: Caller,
) -> Result<ExtendResult, LockError> {
    let lock_id = request.lock_id;
    let result = inner.run(Extend(request), caller).await;
    result.map_err(|error| error.with_lock_id(lock_id))
}

struct Extend(ExtendRequest);

impl Extend {
    /// Returns the lock, or the answer if it cannot be extended.
    fn find(
        &self,
        store: Store<'_>,
        now: &Moment,
    ) -> Result<Result<Record, ExtendResult>, Failure> {
        let record = store.by_lock_id(self.0.lock_id)?;
        if !record.as_ref().is_some_and(|record| record.is_live(now)) {
            return Ok(Err(ExtendResult::NotHeld(Record::not_held(record.as_ref()))));
        }
        Ok(match record {
            None => Err(ExtendResult::NotHeld(Record::not_held(None))),
            Some(held) => {
                let expires_at = held.expires_at()?;
                match self.0.expected_expiry {
                    Some(expected) if expected != expires_at => {
                        Err(ExtendResult::Mismatch { expires_at })
                    }
                    _ => Ok(held),
                }
            }
        })
    }
}

impl Operation for Extend {
    type Output = ExtendResult;

    const RUNS_WITHOUT_CALLER: bool = true;
    const MATTERS_AFTER_REBOOT: bool = false;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<ExtendResult>, Failure> {
        Ok(self.find(store, now)?.err())
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<ExtendResult, Failure> {
        match self.find(store, now)? {
            Err(answer) => Ok(answer),
            Ok(held) => {
                let extended = held.extended(self.0.ttl, now)?;
                let answer = ExtendResult::Extended { expires_at: extended.expires_at()? };
                store.set_lock(&extended, None)?;
                Ok(answer)
            }
        }
    }
}
