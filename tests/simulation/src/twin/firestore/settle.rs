//! The twin of `settle.rs` of the backend.

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::{Settled, Unsettled};

use super::Firestore;
use super::attempts::{Again, Attempt, Attempts, Fault};
use crate::documents::{Change, Condition, Write};
use crate::flaw::Flaw;

impl Firestore {
    pub(in crate::twin) async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        Attempts::new().run(|attempt| self.settle_once(acquire, attempt)).await?;
        Ok(Settled::Done)
    }

    async fn settle_once(&self, acquire: &Unsettled, attempt: Attempt) -> Result<(), Fault> {
        if let Some(known) = self.take(acquire.lock_id) {
            match self.delete(known, &attempt, Flaw::UncheckedCleanUp).await {
                Ok(()) => return Ok(()),
                Err(Fault { again: Again::Conflict, .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        let (lock, counter) = self.documents(acquire.key.clone(), attempt.clone()).await?;
        if let Some(ours) = lock.clone().filter(|lock| lock.value.id == acquire.lock_id) {
            return self.delete(ours, &attempt, Flaw::UncheckedCleanUp).await;
        }
        // Without a version no commit was sent.
        let Some(seen) = acquire.deadline else { return Ok(()) };
        let moved = counter.as_ref().map_or(0, |counter| counter.updated / 1000);
        if moved > seen.as_millis() || self.has(Flaw::UnmovedCounter) {
            return Ok(());
        }
        let counted = counter.as_ref().map_or(0, |counter| counter.value);
        let last = counted.max(lock.map_or(0, |lock| lock.value.fence));
        let change = Change::Counter(acquire.key.clone(), last + 1);
        let condition = Condition::as_read(counter.as_ref());
        self.commit(vec![Write { change, condition }], &attempt).await.map(|_| ())
    }
}
