//! One line in the log when an outage begins and one when it ends, however many locks and tries there are.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::rt::{Instant, Mutex};

/// An outage that lasts is logged again after a minute: a longer time would hide a second outage in the same hour, a shorter one
/// would fill the log of a fleet.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// Says when a failure that lasts is to be logged: once when it begins, and once when it ends. Clones share the
/// state.
///
/// ```
/// use syncguard_core::authoring::OutageLog;
///
/// let outage = OutageLog::default();
/// assert!(outage.begins()); // to be logged
/// assert!(!outage.begins()); // logged already
/// assert!(outage.ends()); // to be logged
/// assert!(!outage.ends());
/// ```
#[derive(Clone, Default)]
pub struct OutageLog(Arc<Mutex<Option<Instant>>>);

impl OutageLog {
    /// Notes a failure. True if it is to be logged: it is the first failure for a minute, or since the last
    /// outage ended.
    #[must_use]
    pub fn begins(&self) -> bool {
        let now = Instant::now();
        let before = self.0.lock().replace(now);
        before.is_none_or(|last| now.saturating_duration_since(last) > LOG_AGAIN)
    }

    /// Notes a success. True if it is to be logged: it is the first success since the outage began.
    #[must_use]
    pub fn ends(&self) -> bool {
        self.0.lock().take().is_some()
    }
}

impl fmt::Debug for OutageLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutageLog")
    }
}
