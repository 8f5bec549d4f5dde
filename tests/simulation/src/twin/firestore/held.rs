//! The twin of `extend.rs` and `release.rs` of the backend, without key hints.

use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError, LockId, NotHeld, ReleaseResult, Timestamp};

use super::super::time;
use super::Firestore;
use super::attempts::{Again, Attempt, Attempts, Fault};
use crate::documents::{Change, Condition, Stored, Write};
use crate::flaw::Flaw;
use crate::protocol::Record;

impl Firestore {
    pub(in crate::twin) async fn extend(
        &self,
        request: &ExtendRequest,
    ) -> Result<ExtendResult, LockError> {
        Attempts::new().run(|attempt| self.extend_once(request, attempt)).await
    }

    async fn extend_once(
        &self,
        request: &ExtendRequest,
        attempt: Attempt,
    ) -> Result<ExtendResult, Fault> {
        let is_expected = |lock: &Stored<Record>| {
            let expected = request.expected_expiry.map(Timestamp::as_millis);
            expected.is_none_or(|expected| expected == lock.value.expires_at)
                || self.has(Flaw::UncheckedExtend)
        };
        if let Some(known) = self.take_live(request.lock_id).filter(is_expected) {
            match self.prolong(request, known, &attempt).await {
                Ok(expires_at) => return Ok(ExtendResult::Extended { expires_at }),
                // Another request has extended or ended the lock. The store knows.
                Err(Fault { again: Again::Conflict, .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        let found = match self.find(request.lock_id, &attempt).await? {
            Ok(found) => found,
            Err(reason) => return Ok(ExtendResult::NotHeld(reason)),
        };
        if !is_expected(&found) {
            let expires_at = time(found.value.expires_at)?;
            self.remember(found.value, found.updated);
            return Ok(ExtendResult::Mismatch { expires_at });
        }
        let expires_at = self.prolong(request, found, &attempt).await?;
        Ok(ExtendResult::Extended { expires_at })
    }

    /// Changes the expiry if the lock is as expected. The new expiry always differs.
    async fn prolong(
        &self,
        request: &ExtendRequest,
        seen: Stored<Record>,
        attempt: &Attempt,
    ) -> Result<Timestamp, Fault> {
        let mut record = seen.value;
        let mut expires_at = self.wire.wall() + request.ttl.as_millis();
        if expires_at == record.expires_at {
            expires_at += 1;
        }
        let condition = if self.has(Flaw::UncheckedExtend) {
            Condition::None
        } else {
            Condition::Updated(seen.updated)
        };
        let change = Change::Expiry(record.key.clone(), expires_at);
        let updated = self.commit(vec![Write { change, condition }], attempt).await?;
        record.expires_at = expires_at;
        self.remember(record, updated);
        Ok(time(expires_at)?)
    }

    pub(in crate::twin) async fn release(&self, id: LockId) -> Result<ReleaseResult, LockError> {
        Attempts::new().run(|attempt| self.release_once(id, attempt)).await
    }

    async fn release_once(&self, id: LockId, attempt: Attempt) -> Result<ReleaseResult, Fault> {
        if let Some(known) = self.take_live(id) {
            match self.delete(known, &attempt, Flaw::UncheckedRelease).await {
                Ok(()) => return Ok(ReleaseResult::Released),
                Err(Fault { again: Again::Conflict, .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        match self.find(id, &attempt).await? {
            Ok(lock) => {
                self.delete(lock, &attempt, Flaw::UncheckedRelease).await?;
                Ok(ReleaseResult::Released)
            }
            // Our own commit, whose answer was lost, and a commit of another client look alike.
            Err(reason) => match attempt.lost {
                Some(lost) => Err(Fault { error: lost, again: Again::No }),
                None => Ok(ReleaseResult::NotHeld(reason)),
            },
        }
    }

    /// Deletes exactly the version that was read, except with a flaw.
    pub(super) async fn delete(
        &self,
        seen: Stored<Record>,
        attempt: &Attempt,
        flaw: Flaw,
    ) -> Result<(), Fault> {
        let condition =
            if self.has(flaw) { Condition::None } else { Condition::Updated(seen.updated) };
        let change = Change::NoLock(seen.value.key);
        self.commit(vec![Write { change, condition }], attempt).await.map(|_| ())
    }

    async fn find(
        &self,
        id: LockId,
        attempt: &Attempt,
    ) -> Result<Result<Stored<Record>, NotHeld>, Fault> {
        Ok(match self.query(id, attempt.clone()).await? {
            None => Err(NotHeld::NotFound),
            Some(lock) if self.is_live(&lock.value) => Ok(lock),
            Some(_) => Err(NotHeld::Expired),
        })
    }
}
