//! The checked options.

use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::checked_timeout;
use syncguard_core::shared::ClientState;

use crate::config::{Passage, SqliteOptions, Synchronous};

/// The settings of a backend, made from its options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) client_state: ClientState,
    pub(crate) operation_timeout: Duration,
    pub(crate) synchronous: Synchronous,
    pub(crate) strict: bool,
    pub(crate) cleanup_in_is_locked: bool,
    pub(crate) gate: Option<Passage>,
}

impl Settings {
    /// # Errors
    ///
    /// `InvalidArgument` for a value that is out of range.
    pub(crate) fn new(options: SqliteOptions) -> Result<Self, LockError> {
        Ok(Self {
            client_state: options.client.client_state()?,
            operation_timeout: checked_timeout("operation timeout", options.operation_timeout)?,
            synchronous: options.synchronous,
            strict: options.strict_durability,
            cleanup_in_is_locked: options.cleanup_in_is_locked,
            gate: options.gate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let options = SqliteOptions::new;
        for wrong in [
            options().with_operation_timeout(Duration::ZERO),
            options().with_operation_timeout(Duration::MAX),
            options().with_dispose_timeout(Duration::from_micros(999)),
        ] {
            let shown = format!("{wrong:?}");
            assert!(Settings::new(wrong).is_err(), "{shown}");
        }
        assert!(Settings::new(options()).is_ok());
    }
}
