//! What an author of a backend writes.

use std::future::Future;
use std::time::Duration;

use syncguard_core::{Fence, Key, LockBackend};

use crate::Late;

/// A store under test, and the few things the suite cannot do through [`LockBackend`].
///
/// The store may be shared with other cases, other test runs and other users: every case works on
/// fresh random keys. A harness that cannot go on should panic; the case then fails with its message.
pub trait Harness: Send + Sync + 'static {
    /// The backend under test.
    type Backend: LockBackend;

    /// Whether the backend's time is tokio's, so that the generated tests may pause it: then no
    /// case waits for real, and expiry is checked to the millisecond. Only for stores inside the
    /// process; a driver's timeouts fire at once when time is paused.
    const PAUSED_CLOCK: bool = false;

    /// A handle on the store. Called several times per case: every handle must reach the same
    /// locks, and should be a connection of its own where that is possible.
    fn connect(&self) -> impl Future<Output = Self::Backend> + Send;

    /// Writes into the store that the last fence of this key was `last`, as if that many
    /// acquisitions had been made. Called for fresh keys only, and only if the backend fences.
    fn set_fence_counter(&self, key: &Key, last: Fence) -> impl Future<Output = ()> + Send;

    /// Overwrites the stored lock of this key with something that cannot be read as a lock, and
    /// says whether it did. Keep the default only if the store cannot hold such a record.
    fn corrupt(&self, key: &Key) -> impl Future<Output = bool> + Send {
        let _ = key;
        std::future::ready(false)
    }

    /// A handle on the store behind a line of its own on which requests can be held back, for the
    /// cases about requests that arrive late; see [`LateLine`](crate::LateLine). Keep the default only
    /// if nothing can be late, because the store is in the process, or where it cannot be arranged.
    fn connect_late(&self) -> impl Future<Output = Option<Late<Self::Backend>>> + Send {
        std::future::ready(None)
    }

    /// Lets this much time pass, for the store and for tokio. Default: sleeps.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time)
    }
}
