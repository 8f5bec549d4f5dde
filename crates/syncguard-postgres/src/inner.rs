//! The state that all operations share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use syncguard_core::LockError;
use tokio::sync::OnceCell;

use crate::pool::StatementPool;
use crate::resent_acquires::ResentAcquires;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::statements::{Statement, Statements};

/// The state that the clones of a backend share.
pub(crate) struct Inner {
    pub(crate) pool: StatementPool,
    pub(crate) statements: Statements,
    pub(crate) settings: Settings,
    /// Set after the database has passed the check of strict mode.
    pub(crate) checked: OnceCell<()>,
    pub(crate) resent_acquires: ResentAcquires,
    pub(crate) signals: Arc<Signals>,
    /// Set after the lock table was found without the column for holders.
    pub(crate) lacks_holders: AtomicBool,
}

impl Inner {
    /// In strict mode, the first acquire checks the database.
    pub(crate) async fn refuse_forgetful_database(&self) -> Result<(), LockError> {
        if self.settings.strict {
            self.checked.get_or_try_init(async || self.durability().await?.enforce(true)).await?;
        }
        Ok(())
    }

    /// Returns the statement that fits the lock table, and true if it stores holders.
    pub(crate) fn acquire_statement(&self) -> (&Statement, bool) {
        if self.lacks_holders.load(Ordering::Relaxed) {
            (&self.statements.acquire_without_holder, false)
        } else {
            (&self.statements.acquire, true)
        }
    }

    /// Notes that the TypeScript library made the lock table.
    pub(crate) fn keeps_no_holders(&self) {
        self.lacks_holders.store(true, Ordering::Relaxed);
    }

    /// Notes that `setup_schema` brought the lock table up to date, if the role may do that.
    pub(crate) fn may_keep_holders(&self) {
        self.lacks_holders.store(false, Ordering::Relaxed);
    }
}
