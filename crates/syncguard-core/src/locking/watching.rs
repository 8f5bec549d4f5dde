//! How a head watches for the release of a lock, and when it opens a watch.

use std::time::Duration;

use crate::backend::LockBackend;
use crate::contract::key_watch::KeyWatch;
use crate::contract::request::WatchRequest;
use crate::rt::{self, Instant};
use crate::value::Key;

/// The knowledge of a head about the signals of the store.
#[derive(Default)]
pub(super) struct Watching {
    /// Whether the last try to open a watch has found no signals.
    without_signals: bool,
    /// How many watches in a row were over when they began.
    short_watches: u32,
}

/// Signals after which the same lease was still there. A store may send them, and so may any program that is allowed
/// to signal. The head must not ask the store as often as such a program likes.
#[derive(Default)]
pub(super) struct FalseSignals {
    /// When the lease ends by the answer before the first of these signals.
    lease_ends: Option<Instant>,
    in_a_row: u32,
}

impl FalseSignals {
    const SHORTEST: Duration = Duration::from_millis(1);
    /// The head then asks about as often as a client that polls.
    const LONGEST: Duration = Duration::from_millis(100);
    /// Answers differ by this much in what they say of one lease.
    const NOISE: Duration = Duration::from_millis(5);

    /// The store has answered an attempt with the end of a lease; `signalled` says that a signal was the reason to ask.
    pub(super) fn on_locked(&mut self, lease_ends: Option<Instant>, signalled: bool) {
        let is_same = self.lease_ends.zip(lease_ends).is_some_and(|(before, now)| {
            before.max(now).saturating_duration_since(before.min(now)) < Self::NOISE
        });
        if !is_same {
            *self = Self { lease_ends, in_a_row: 0 };
        } else if signalled {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
    }

    /// How long the head waits after the next signal: twice as long after each that was false.
    pub(super) fn pause(&self) -> Option<Duration> {
        let doublings = self.in_a_row.checked_sub(1)?;
        Some(Self::LONGEST.min(Self::SHORTEST * (1 << doublings.min(8))))
    }
}

/// The outcome of opening a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchStart {
    /// The lock may be free.
    MayBeFree,
    /// The lock is held, and a signal will follow its release.
    Held,
    /// The store has no signals at the moment.
    NoSignals,
}

impl Watching {
    /// The shortest time limit for opening a watch.
    pub(super) const MIN_LIMIT: Duration = Duration::from_millis(200);

    /// Whether the head should open a watch.
    pub(super) fn is_wanted(&self, watch: Option<&KeyWatch>) -> bool {
        !self.without_signals && watch.is_none_or(KeyWatch::is_over)
    }

    /// Opens a watch, and gives up at `limit`. Returns the watch unless it is over already.
    pub(super) async fn open<B: LockBackend>(
        &mut self,
        backend: &B,
        key: &Key,
        limit: Instant,
    ) -> (WatchStart, Option<KeyWatch>) {
        let watch = backend.watch(WatchRequest::new(key.clone()));
        let watch = rt::until(limit, watch).await.flatten();
        let Some(watch) = watch else {
            *self = Self { without_signals: true, short_watches: 0 };
            return (WatchStart::NoSignals, None);
        };
        if !watch.is_over() {
            *self = Self::default();
            let start = if watch.is_locked() { WatchStart::Held } else { WatchStart::MayBeFree };
            return (start, Some(watch));
        }
        (self.on_short_watch(watch.is_locked()), None)
    }

    /// After a watch that is over at once, the head asks the store. Twice in a row it means that there are no
    /// signals, or that rivals hand the key on faster than a watch can begin. From the third time on, the
    /// head asks only if the watch found the lock free.
    fn on_short_watch(&mut self, is_locked: bool) -> WatchStart {
        self.short_watches = self.short_watches.saturating_add(1);
        self.without_signals = self.short_watches > 1;
        match self.short_watches {
            1 => WatchStart::MayBeFree,
            2 => WatchStart::NoSignals,
            _ if is_locked => WatchStart::NoSignals,
            _ => WatchStart::MayBeFree,
        }
    }

    /// When a head without signals tries to open a watch again: after a second if the store had no signals,
    /// and soon at first if watches were over at once. A lost connection may be back long before the next
    /// poll.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        const SHORTEST: Duration = Duration::from_millis(2);
        const LONGEST: Duration = Duration::from_secs(1);
        let pause = match self.short_watches {
            0 | 1 => LONGEST,
            times => LONGEST.min(SHORTEST * (1 << (times - 2).min(9))),
        };
        self.without_signals.then(|| now + pause)
    }

    /// Lets the head open a watch at the next occasion.
    pub(super) fn allow_retry(&mut self) {
        self.without_signals = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(watching: &Watching) -> Option<u128> {
        let now = Instant::now();
        let at = watching.retry_at(now)?;
        Some(at.saturating_duration_since(now).as_millis())
    }

    #[test]
    fn watches_that_are_over_at_once_are_begun_again_after_pauses_that_grow() {
        let mut watching = Watching::default();
        assert!(watching.is_wanted(None));
        assert!(watching.on_short_watch(true) == WatchStart::MayBeFree);
        assert!(watching.is_wanted(None), "one signal is as good as any other");
        assert!(watching.on_short_watch(false) == WatchStart::NoSignals);
        assert!(!watching.is_wanted(None));
        let mut pauses = vec![pause(&watching)];
        for _ in 0..10 {
            watching.allow_retry();
            assert!(watching.on_short_watch(true) == WatchStart::NoSignals);
            pauses.push(pause(&watching));
        }
        let pauses: Vec<_> = pauses.into_iter().flatten().collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000]);
        assert!(watching.on_short_watch(false) == WatchStart::MayBeFree, "no signal follows");
    }

    #[test]
    fn a_watch_that_goes_on_is_enough() {
        let watching = Watching::default();
        let (signal, watch) = KeyWatch::new();
        assert!(!watching.is_wanted(Some(&watch)));
        drop(signal);
        assert!(watching.is_wanted(Some(&watch)));
        assert_eq!(pause(&watching), None);
    }
}
