//! What is said of a store that is away: one line when it begins, one when it is over, however many locks
//! and tries there are.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::rt::{Instant, Mutex};

/// A time in which something kept failing. Clones share it.
///
/// ```
/// use syncguard_core::authoring::Episode;
///
/// let outage = Episode::default();
/// assert!(outage.begins()); // said
/// assert!(!outage.begins()); // known
/// assert!(outage.ends()); // said
/// assert!(!outage.ends());
/// ```
#[derive(Clone, Default)]
pub struct Episode(Arc<Mutex<Option<Instant>>>);

impl Episode {
    /// After so long without a failure the next one is news, also if nobody has said that it was over.
    const FORGOTTEN: Duration = Duration::from_secs(60);

    /// Something failed. Whether that is to be said: it is the first failure for a minute, or since the
    /// last episode ended.
    #[must_use]
    pub fn begins(&self) -> bool {
        let now = Instant::now();
        let before = self.0.lock().replace(now);
        before.is_none_or(|last| now.saturating_duration_since(last) > Self::FORGOTTEN)
    }

    /// What had failed works. Whether that is to be said: nobody has yet.
    #[must_use]
    pub fn ends(&self) -> bool {
        self.0.lock().take().is_some()
    }
}

impl fmt::Debug for Episode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Episode")
    }
}
