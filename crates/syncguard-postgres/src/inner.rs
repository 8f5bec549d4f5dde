//! The state that all operations share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::{Caller, ExtendBatches};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::pool::{Answer, Lane, Param, StatementPool};
use crate::resent_acquires::ResentAcquires;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::statements::{Statement, Statements};

/// The state that the clones of a backend share.
pub(crate) struct Inner {
    pub(crate) pool: StatementPool,
    pub(crate) statements: Statements,
    pub(crate) settings: Settings,
    /// Set after the database and the tables have passed the check.
    pub(crate) checked: OnceCell<()>,
    pub(crate) resent_acquires: ResentAcquires,
    pub(crate) extends: ExtendBatches,
    pub(crate) signals: Arc<Signals>,
    /// True if the lock table has an index on the expiry, with which a batch of extends is slower than one by one.
    pub(crate) extends_alone: AtomicBool,
    /// When the lock table was last found without the column for holders, if it lacks it.
    pub(crate) lacks_holders: Mutex<Option<Instant>>,
}

impl Inner {
    /// The first operation checks the database and the tables: no statement may run code of others before.
    pub(crate) async fn check(&self, caller: &Caller) -> Result<(), LockError> {
        let check = async || self.durability(caller).await?.enforce(self.settings.strict);
        self.checked.get_or_try_init(check).await.map(drop)
    }

    /// Carries out a statement as [`StatementPool::query`] does.
    pub(crate) async fn query(
        &self,
        lane: Lane,
        caller: &Caller,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Answer, LockError> {
        self.check(caller).await?;
        self.pool.query(lane, caller, statement, parameters).await
    }

    /// Returns the statement that fits the lock table, and true if it stores holders.
    pub(crate) async fn acquire_statement(&self) -> (&Statement, bool) {
        /// Another process may add the column at any time.
        const LOOK_AGAIN: Duration = Duration::from_secs(30);
        let since = *self.lacks_holders();
        if since.is_some_and(|since| since.elapsed() >= LOOK_AGAIN) {
            // One acquire looks; the others go on.
            self.keeps_holders(false);
            // An error changes nothing.
            let _ = self.durability(&Caller::new(None)).await;
        }
        if self.lacks_holders().is_some() {
            (&self.statements.acquire_without_holder, false)
        } else {
            (&self.statements.acquire, true)
        }
    }

    /// Notes whether the lock table has the column for holders. A table of the TypeScript library has none.
    pub(crate) fn keeps_holders(&self, keeps: bool) {
        *self.lacks_holders() = (!keeps).then(Instant::now);
    }

    fn lacks_holders(&self) -> MutexGuard<'_, Option<Instant>> {
        self.lacks_holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
