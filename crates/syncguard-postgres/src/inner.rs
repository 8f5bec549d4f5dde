//! What all operations share.

use syncguard_core::LockError;
use tokio::sync::OnceCell;

use crate::doubtful::Doubtful;
use crate::pool::StatementPool;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::statements::Statements;

/// What the clones of a backend share.
pub(crate) struct Inner {
    pub(crate) pool: StatementPool,
    pub(crate) statements: Statements,
    pub(crate) settings: Settings,
    /// Set once the database was found good enough for strict mode.
    pub(crate) checked: OnceCell<()>,
    pub(crate) doubtful: Doubtful,
    pub(crate) signals: Signals,
}

impl Inner {
    /// In strict mode the first acquire finds out whether the database is good enough.
    pub(crate) async fn refuse_forgetful_database(&self) -> Result<(), LockError> {
        if self.settings.strict {
            self.checked.get_or_try_init(async || self.durability().await?.enforce(true)).await?;
        }
        Ok(())
    }
}
