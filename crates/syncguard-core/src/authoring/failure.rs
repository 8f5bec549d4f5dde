//! The rule, for all stores, of what a failed request says about its connection and its server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The subject of a failure. Each backend's table of errors says it beside the code of the error.
///
/// | subject | examples | the backend's next request |
/// |---|---|---|
/// | request | a record of a wrong type, no memory for a write, a missing permission | uses the same connection |
/// | connection | cut, refused, or silent for a whole request | uses another connection |
/// | server | a replica, loading its data, cut off from its cluster, out of connections | looks for another server: resolves the name again, asks the list, the Sentinels or the cluster |
///
/// A backend looks for another connection or server at most once a second, see [`LookLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureSubject {
    /// The server has answered and serves other requests. The connection stays.
    Request,
    /// The connection gives no answers any more.
    Connection,
    /// The server answers, and it is not, or is no longer, the server for this request.
    Server,
}

impl FailureSubject {
    /// Returns whether the backend should look for another connection or server.
    #[must_use]
    pub fn needs_new_connection(self) -> bool {
        self != Self::Request
    }
}

/// Says when a backend may look for another connection or server: at most once a second, however many requests fail.
#[derive(Debug, Default)]
pub struct LookLimit {
    last: Mutex<Option<Instant>>,
}

impl LookLimit {
    const PAUSE: Duration = Duration::from_secs(1);

    /// A limit that permits the first look at once.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true, and counts a look, if the last look was at least a second ago.
    #[must_use]
    pub fn permits(&self) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last.is_none_or(|last| now.duration_since(last) >= Self::PAUSE);
        if may {
            *last = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_lies_between_two_looks() {
        let limit = LookLimit::new();
        assert!(limit.permits() && !limit.permits());
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(!limit.permits());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(limit.permits() && !limit.permits());
    }
}
