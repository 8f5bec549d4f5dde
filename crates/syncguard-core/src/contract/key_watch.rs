//! Hearing that a key may have become free.

use std::any::Any;
use std::fmt;

use tokio::sync::watch;

/// Hears that the lock of a key may have become free: the answer of
/// [`LockBackend::watch`](crate::LockBackend::watch).
///
/// A signal is a hint. It can be lost, late, doubled or wrong, and nothing but latency depends on it:
/// whoever waits looks again, and looks again without a signal from time to time.
///
/// Dropping it ends the watch.
#[must_use = "a watch that is dropped hears nothing"]
pub struct KeyWatch {
    signals: watch::Receiver<()>,
    is_locked: bool,
    is_locked_by_a_poller: bool,
    /// What the backend keeps for as long as somebody watches.
    keep: Option<Box<dyn Any + Send + Sync>>,
}

impl KeyWatch {
    /// A watch, and what signals it. For authors of backends, who hand the watch out once the store has
    /// confirmed that it will be heard from.
    pub fn new() -> (KeySignal, Self) {
        let (sender, signals) = watch::channel(());
        (
            KeySignal(sender),
            Self { signals, is_locked: false, is_locked_by_a_poller: false, keep: None },
        )
    }

    /// Says that the store was asked after it began to listen for the key, and that the lock was live
    /// then: there is no need to try again before a signal.
    pub fn that_is_locked(mut self) -> Self {
        self.is_locked = true;
        self
    }

    /// The same as [`that_is_locked`](Self::that_is_locked), where the holder is a client that only polls: see
    /// [`Contention::holder_polls`](crate::Contention::holder_polls).
    pub fn that_is_locked_by_a_poller(mut self) -> Self {
        self.is_locked_by_a_poller = true;
        self.that_is_locked()
    }

    /// Keeps something until the watch is dropped: a guard that ends the subscription.
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.keep = Some(Box::new(guard));
        self
    }

    /// Whether the lock was live when the watch began, as far as the store was asked.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Whether the holder at that time was a client that only polls: see
    /// [`Contention::holder_polls`](crate::Contention::holder_polls).
    #[must_use]
    pub const fn is_locked_by_a_poller(&self) -> bool {
        self.is_locked_by_a_poller
    }

    /// Whether no signal will come any more: it has given its last one, or the connection is lost. Watch
    /// anew to hear more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.signals.has_changed().is_err()
    }

    /// Signals until now do not count.
    pub(crate) fn forget(&mut self) {
        self.signals.mark_unchanged();
    }

    /// Resolves at the next signal, or when the watch is [over](Self::is_over). A signal given since the
    /// last time this resolved counts.
    ///
    /// # Cancel safety
    ///
    /// Safe: no signal is lost.
    pub async fn changed(&mut self) {
        // An error says that it is over, which is a reason to look as well.
        let _ = self.signals.changed().await;
    }
}

impl fmt::Debug for KeyWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWatch").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

/// What signals a [`KeyWatch`]. Dropping it ends the watch, which counts as a last signal.
#[derive(Debug)]
pub struct KeySignal(watch::Sender<()>);

impl KeySignal {
    /// The lock may have become free.
    pub fn signal(&self) {
        self.0.send_replace(());
    }

    /// Whether the watch is gone.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        self.0.is_closed()
    }
}
