//! The checked options.

use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::checked_timeout;
use syncguard_core::shared::ClientState;
use tokio_postgres::NoTls;

use crate::cancel_request::CancelRequests;
use crate::config::PostgresOptions;
use crate::names::Tables;
use crate::signals::route::SignalOptions;

/// The set-up of the pool's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// The sessions belong to the program or to a pooler, and are not set up for locks.
    Unchanged,
    /// `session.sql` has set up the sessions.
    SetUp,
}

/// The settings of a backend's operations.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one option")]
pub(crate) struct Settings {
    pub(crate) tables: Tables,
    pub(crate) client_state: ClientState,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) pool_wait: Duration,
    pub(crate) statement: Duration,
    /// The limit of an operation.
    pub(crate) operation: Duration,
    pub(crate) unprepared: bool,
    pub(crate) sessions: Sessions,
    pub(crate) strict: bool,
    /// Empty if the options name none.
    pub(crate) trusted_owner: String,
    pub(crate) upgrades: bool,
    pub(crate) cancel: Option<CancelRequests>,
    pub(crate) signals: SignalOptions,
    /// The limit for opening a connection for signals.
    pub(crate) connect: Duration,
}

impl Settings {
    /// # Errors
    ///
    /// `InvalidArgument` for a value that is out of range.
    pub(crate) fn new(options: PostgresOptions) -> Result<Self, LockError> {
        let connect = checked_timeout("connect timeout", options.connect_timeout)?;
        if !(1..=10_000).contains(&options.pool_size) {
            return Err(LockError::invalid_argument(format!(
                "a pool of {} connections is asked for; 1 to 10000 are allowed",
                options.pool_size
            )));
        }
        let unprepared = options.unprepared_statements;
        let mut pool_wait = checked_timeout("pool wait timeout", options.pool_wait_timeout)?;
        let mut statement = checked_timeout("statement timeout", options.statement_timeout)?;
        let mut operation = pool_wait.saturating_add(statement.saturating_mul(2));
        if let Some(limit) = options.operation_timeout {
            operation = checked_timeout("operation timeout", limit)?;
            (pool_wait, statement) = (pool_wait.min(operation), statement.min(operation));
        }
        Ok(Self {
            tables: Tables::new(&options.lock_table, &options.fence_table)?,
            client_state: options.client.client_state()?,
            cleanup_in_is_locked: options.cleanup_in_is_locked,
            pool_wait,
            statement,
            operation,
            unprepared,
            sessions: Sessions::Unchanged,
            strict: options.strict_durability,
            trusted_owner: checked_owner(options.trusted_owner)?,
            upgrades: options.schema_upgrade,
            // A pool without prepared statements leads to a pooler, which gets no request unless its user says so.
            cancel: options.cancel.or_else(|| (!unprepared).then(|| CancelRequests::new(NoTls))),
            signals: options.signals,
            connect,
        })
    }

    /// How long the server may wait for another session, in whole milliseconds. Never 0, which would mean no
    /// limit.
    pub(crate) fn lock_timeout_ms(&self) -> u128 {
        (self.statement / 2).as_millis().clamp(1, 1 << 30)
    }

    /// The time after which the server ends a statement, in whole milliseconds and never 0: a little before the
    /// backend gives the statement up, so that the server's answer arrives in time.
    pub(crate) fn statement_timeout_ms(&self) -> u128 {
        (self.statement.as_millis() * 9 / 10).clamp(1, 1 << 30)
    }
}

fn checked_owner(role: String) -> Result<String, LockError> {
    if role.contains('\0') {
        return Err(LockError::invalid_argument("the trusted owner's name has a NUL in it"));
    }
    Ok(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_is_longer_than_the_limit_of_an_operation() {
        let limits = |options| {
            let settings = Settings::new(options).unwrap();
            [settings.pool_wait, settings.statement, settings.operation]
                .map(|limit| limit.as_secs())
        };
        assert_eq!(limits(PostgresOptions::new()), [5, 5, 15]);
        let second = Duration::from_secs(1);
        assert_eq!(limits(PostgresOptions::new().with_operation_timeout(second)), [1, 1, 1]);
        let options = PostgresOptions::new().with_operation_timeout(60 * second);
        assert_eq!(limits(options.with_statement_timeout(2 * second)), [5, 2, 60]);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let options = PostgresOptions::new;
        for wrong in [
            options().with_statement_timeout(Duration::ZERO),
            options().with_statement_timeout(Duration::MAX),
            options().with_operation_timeout(Duration::ZERO),
            options().with_pool_wait_timeout(Duration::from_micros(999)),
            options().with_connect_timeout(Duration::ZERO),
            options().with_dispose_timeout(Duration::ZERO),
            options().with_pool_size(0),
            options().with_pool_size(10_001),
            options().with_tables("a-b", "f"),
            options().with_tables("same", "same"),
            options().with_trusted_owner("a\0"),
        ] {
            let shown = format!("{wrong:?}");
            assert!(Settings::new(wrong).is_err(), "{shown}");
        }
        assert!(Settings::new(options()).is_ok());
    }
}
