//! Signals that a key may have become free.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use tokio::sync::watch;

use crate::rt::Instant;

/// How long a connection for signals is trusted that says nothing: then a watch is begun anew, or the store is asked for
/// a sign of life. A lost connection costs waiters that time at the most, and the question costs next to nothing.
pub(crate) const TRUSTED_FOR: Duration = Duration::from_secs(5);

/// After this time a watch is begun anew.
const RENEWED_AFTER: Duration = Duration::from_secs(30);

/// Receives signals that the lock of a key may have become free: the answer of
/// [`LockBackend::watch`](crate::LockBackend::watch).
///
/// A signal is a hint. It can be lost, late, doubled or wrong, and only latency depends on it: a waiter
/// asks the store after a signal, and from time to time without one.
///
/// Dropping the `KeyWatch` ends the watch.
#[must_use = "a watch that is dropped hears nothing"]
pub struct KeyWatch {
    began: Instant,
    signals: watch::Receiver<()>,
    /// True if the store said that the lock was live when the watch began.
    pub is_locked: bool,
    /// True if that lock was one of a client that only polls: see
    /// [`Contention::is_polled`](crate::Contention::is_polled).
    pub is_polled: bool,
    /// A guard of the backend, kept until the watch is dropped.
    keep: Option<Box<dyn Any + Send + Sync>>,
}

impl KeyWatch {
    /// A watch and its sender. For authors of backends: hand the watch out after the store has
    /// confirmed the subscription.
    pub fn new() -> (KeySignal, Self) {
        let (sender, signals) = watch::channel(());
        let began = Instant::now();
        (KeySignal(sender), Self { began, signals, is_locked: false, is_polled: false, keep: None })
    }

    /// Says that the lock was live when the store was asked after the subscription began: the waiter need
    /// not try again before a signal.
    pub fn with_locked(mut self) -> Self {
        self.is_locked = true;
        self
    }

    /// As [`with_locked`](Self::with_locked), for the lock of a client that only polls: see
    /// [`Contention::is_polled`](crate::Contention::is_polled).
    pub(crate) fn with_polled(mut self) -> Self {
        self.is_polled = true;
        self.with_locked()
    }

    /// Keeps a guard until the watch is dropped, such as a guard that ends the subscription.
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.keep = Some(Box::new(guard));
        self
    }

    /// True if the watch will get no more signals: it has had its last signal, or the connection is lost. Begin
    /// a new watch to hear more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.signals.has_changed().is_err()
    }

    /// True after half a minute: a store can stop sending signals without a sign of it, and only a new watch shows
    /// whether it does. Until then its waiters poll every five seconds.
    pub(crate) fn is_old(&self) -> bool {
        self.began + RENEWED_AFTER <= Instant::now()
    }

    /// Ignores the signals until now.
    pub(crate) fn forget(&mut self) {
        self.signals.mark_unchanged();
    }

    /// Resolves at the next signal, or when the watch is [over](Self::is_over). A signal since the last time
    /// this resolved counts.
    ///
    /// # Cancel safety
    ///
    /// Safe: no signal is lost.
    pub async fn changed(&mut self) {
        // An error says that the watch is over. The waiter asks the store then too.
        let _ = self.signals.changed().await;
    }
}

impl fmt::Debug for KeyWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWatch").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

/// Signals a [`KeyWatch`]. Dropping the `KeySignal` ends the watch, which counts as a last signal.
#[derive(Debug)]
pub struct KeySignal(watch::Sender<()>);

impl KeySignal {
    /// The lock may have become free.
    pub fn signal(&self) {
        self.0.send_replace(());
    }

    /// True if the watch is gone.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        self.0.is_closed()
    }
}
