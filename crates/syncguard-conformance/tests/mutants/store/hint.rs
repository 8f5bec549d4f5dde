//! Flaws of key hints. Without a flaw the store ignores hints.

use syncguard_core::contract::LookupBy;
use syncguard_core::{Key, LockError, LockId};

use super::{Store, Stored};
use crate::mutants::flaws::Flaw;

impl Store {
    /// The id that a request uses, given its hint.
    pub(crate) fn hinted(&self, lock_id: LockId, hint: Option<&Key>) -> Result<LockId, LockError> {
        let Some(hint) = hint else { return Ok(lock_id) };
        let there = match self.locks.get(&self.name(hint)) {
            Some(Stored::Lock(lock)) => Some(lock.lock_id),
            _ => None,
        };
        let is_reserved = ["id:", "fence:"].iter().any(|lead| hint.expose().starts_with(lead));
        match self.flaw {
            Some(Flaw::takes_the_hint_for_proof) => Ok(there.unwrap_or(lock_id)),
            Some(Flaw::looks_only_under_the_hint) if there != Some(lock_id) => LockId::generate(),
            Some(Flaw::finds_nothing_with_a_hint) => LockId::generate(),
            Some(Flaw::refuses_hints_that_nobody_could_lock) if is_reserved => {
                Err(LockError::invalid_argument("no such key can be locked"))
            }
            _ => Ok(lock_id),
        }
    }

    pub(crate) fn hinted_lookup(
        &self,
        by: LookupBy,
        hint: Option<&Key>,
    ) -> Result<LookupBy, LockError> {
        match by {
            LookupBy::LockId(lock_id) => Ok(LookupBy::LockId(self.hinted(lock_id, hint)?)),
            by @ LookupBy::Key(_) => Ok(by),
        }
    }
}
