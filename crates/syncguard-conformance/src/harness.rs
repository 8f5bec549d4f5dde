//! The harness, which the author of a backend writes.

use std::future::Future;
use std::time::Duration;

use syncguard_core::{Fence, Key, LockBackend};

use crate::Late;

/// A store under test, and the operations on it that [`LockBackend`] does not have.
///
/// Other cases, test runs and users may share the store, because every case works on fresh random keys. A harness
/// that cannot go on should panic; the case then fails with its message.
pub trait Harness: Send + Sync + 'static {
    /// The backend under test.
    type Backend: LockBackend;

    /// True if the backend's time is tokio's. The generated tests then pause the clock: no case waits in real time,
    /// and expiry is checked to the millisecond. Only for stores inside the process: with a paused clock, a driver's
    /// timeouts fire at once.
    const PAUSED_CLOCK: bool = false;

    /// A handle on the store. The suite calls this several times in each case. Every handle must reach the same
    /// locks, and should be a connection of its own if possible.
    fn connect(&self) -> impl Future<Output = Self::Backend> + Send;

    /// Sets the last fence of this key to `last` in the store, as after that many acquires. Called only for fresh
    /// keys, and only if the backend fences.
    fn set_fence_counter(&self, key: &Key, last: Fence) -> impl Future<Output = ()> + Send;

    /// Overwrites the stored lock of this key with a record that cannot be read as a lock, and returns true. Keep the
    /// default only if the store cannot hold such a record.
    fn corrupt(&self, key: &Key) -> impl Future<Output = bool> + Send {
        let _ = key;
        std::future::ready(false)
    }

    /// A handle on the store over a connection on which requests can be held back, for the cases about late requests;
    /// see [`RequestGate`](crate::RequestGate). Keep the default only if no request can be late because the store is in the
    /// process, or if the connection cannot be controlled.
    fn connect_late(&self) -> impl Future<Output = Option<Late<Self::Backend>>> + Send {
        std::future::ready(None)
    }

    /// Lets this much time pass for the store and for tokio. Default: sleeps.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time)
    }
}
