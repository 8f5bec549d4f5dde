//! The options once they are checked.

use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::checked_timeout;
use syncguard_core::contract::ClientState;

use crate::cancel_request::CancelRequests;
use crate::config::PostgresOptions;
use crate::names::Tables;
use crate::signals::SignalOptions;

/// Whether the sessions of the pool are set up for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// They are a program's, or a pooler's.
    AsTheyCome,
    /// By `session.sql`.
    SetUp,
}

/// What the operations of a backend go by.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) tables: Tables,
    pub(crate) client_state: ClientState,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) pool_wait: Duration,
    pub(crate) statement: Duration,
    pub(crate) unprepared: bool,
    pub(crate) sessions: Sessions,
    pub(crate) strict: bool,
    pub(crate) cancel: Option<CancelRequests>,
    pub(crate) signals: SignalOptions,
    /// The longest that the opening of a connection for signals may take, where it is not one like the
    /// pool's.
    pub(crate) connect: Duration,
}

impl Settings {
    /// # Errors
    ///
    /// `InvalidArgument` for what is out of range.
    pub(crate) fn new(options: PostgresOptions) -> Result<Self, LockError> {
        let connect = checked_timeout("connect timeout", options.connect_timeout)?;
        if !(1..=10_000).contains(&options.pool_size) {
            return Err(LockError::invalid_argument(format!(
                "a pool of {} connections is asked for; 1 to 10000 are allowed",
                options.pool_size
            )));
        }
        let unprepared = options.unprepared_statements;
        Ok(Self {
            tables: Tables::new(&options.lock_table, &options.fence_table)?,
            client_state: options.client.client_state()?,
            cleanup_in_is_locked: options.cleanup_in_is_locked,
            pool_wait: checked_timeout("pool wait timeout", options.pool_wait_timeout)?,
            statement: checked_timeout("statement timeout", options.statement_timeout)?,
            unprepared,
            sessions: Sessions::AsTheyCome,
            strict: options.strict_durability,
            // Over an unknown pool that has to do without prepared statements nothing is cancelled: it leads
            // to a pooler.
            cancel: options.cancel.or_else(|| (!unprepared).then(CancelRequests::by_driver)),
            signals: options.signals,
            connect,
        })
    }

    /// How long the server may wait for another session, in whole milliseconds and never 0, which
    /// would mean for ever.
    pub(crate) fn lock_timeout_ms(&self) -> u128 {
        (self.statement / 2).as_millis().clamp(1, 1 << 30)
    }

    /// After how long the server ends a statement, in whole milliseconds and never 0: a little before
    /// it is given up here, so that its word arrives in time.
    pub(crate) fn statement_timeout_ms(&self) -> u128 {
        (self.statement.as_millis() * 9 / 10).clamp(1, 1 << 30)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let options = PostgresOptions::new;
        for wrong in [
            options().with_statement_timeout(Duration::ZERO),
            options().with_statement_timeout(Duration::MAX),
            options().with_pool_wait_timeout(Duration::from_micros(999)),
            options().with_connect_timeout(Duration::ZERO),
            options().with_dispose_timeout(Duration::ZERO),
            options().with_pool_size(0),
            options().with_pool_size(10_001),
            options().with_tables("a-b", "f"),
            options().with_tables("same", "same"),
        ] {
            let shown = format!("{wrong:?}");
            assert!(Settings::new(wrong).is_err(), "{shown}");
        }
        assert!(Settings::new(options()).is_ok());
    }
}
