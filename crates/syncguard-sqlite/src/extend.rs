//! Keeping a lock for longer.

use syncguard_core::ExtendResult;
use syncguard_core::contract::ExtendRequest;

use crate::clock::Moment;
use crate::error::Failure;
use crate::operation::Operation;
use crate::record::Record;
use crate::store::Store;

pub(crate) struct Extend(pub(crate) ExtendRequest);

impl Extend {
    /// The lock, or why it is not extended.
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

    const IS_OWED: bool = true;
    const OUTLIVES_BOOT: bool = false;

    fn look(&self, store: Store<'_>, now: &Moment) -> Result<Option<ExtendResult>, Failure> {
        Ok(self.find(store, now)?.err())
    }

    fn change(&self, store: Store<'_>, now: &Moment) -> Result<ExtendResult, Failure> {
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
