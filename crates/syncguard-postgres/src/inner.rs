//! What all operations share.

use std::sync::atomic::{AtomicBool, Ordering};

use syncguard_core::LockError;
use tokio::sync::OnceCell;

use crate::doubtful::Doubtful;
use crate::pool::StatementPool;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::statements::{Statement, Statements};

/// What the clones of a backend share.
pub(crate) struct Inner {
    pub(crate) pool: StatementPool,
    pub(crate) statements: Statements,
    pub(crate) settings: Settings,
    /// Set once the database was found good enough for strict mode.
    pub(crate) checked: OnceCell<()>,
    pub(crate) doubtful: Doubtful,
    pub(crate) signals: Signals,
    /// Set once the lock table was found without the column for holders.
    pub(crate) lacks_holders: AtomicBool,
}

impl Inner {
    /// In strict mode the first acquire finds out whether the database is good enough.
    pub(crate) async fn refuse_forgetful_database(&self) -> Result<(), LockError> {
        if self.settings.strict {
            self.checked.get_or_try_init(async || self.durability().await?.enforce(true)).await?;
        }
        Ok(())
    }

    /// The statement that takes a lock from the table as it is, and whether holders are kept in it.
    pub(crate) fn acquire_statement(&self) -> (&Statement, bool) {
        if self.lacks_holders.load(Ordering::Relaxed) {
            (&self.statements.acquire_without_holder, false)
        } else {
            (&self.statements.acquire, true)
        }
    }

    /// The lock table was made by the TypeScript library or an older version of this one.
    pub(crate) fn keeps_no_holders(&self) {
        self.lacks_holders.store(true, Ordering::Relaxed);
    }

    /// The lock table was brought up to date, if the role may.
    pub(crate) fn may_keep_holders(&self) {
        self.lacks_holders.store(false, Ordering::Relaxed);
    }
}
