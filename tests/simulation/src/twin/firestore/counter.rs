//! Fence counters: the twin of the backend's reads and raises.

use syncguard_core::{Key, LockError};

use super::Firestore;
use super::attempts::{Attempt, Attempts, Fault};
use crate::documents::{Change, Condition, Write};

impl Firestore {
    pub(in crate::twin) async fn counter(&self, key: Key) -> Result<Option<u64>, LockError> {
        let read = |attempt: Attempt| self.documents(key.clone(), attempt);
        let (_, counter) = Attempts::new().run(read).await?;
        Ok(counter.map(|counter| counter.value))
    }

    pub(in crate::twin) async fn raise(&self, key: Key, at_least: u64) -> Result<u64, LockError> {
        Attempts::new().run(|attempt| self.raise_once(key.clone(), at_least, attempt)).await
    }

    async fn raise_once(&self, key: Key, at_least: u64, attempt: Attempt) -> Result<u64, Fault> {
        let (_, counter) = self.documents(key.clone(), attempt.clone()).await?;
        let value = counter.as_ref().map_or(0, |counter| counter.value);
        if value >= at_least {
            return Ok(value);
        }
        let condition = Condition::as_read(counter.as_ref());
        let change = Change::Counter(key, at_least);
        self.commit(vec![Write { change, condition }], &attempt).await?;
        Ok(at_least)
    }
}
