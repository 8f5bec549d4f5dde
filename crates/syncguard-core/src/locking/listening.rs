//! How a head watches for the release of a lock, and when it opens a watch.

use std::time::Duration;

use crate::contract::{KeyWatch, WatchRequest};
use crate::rt::{self, Instant};
use crate::{Key, LockBackend};

/// What a head has learned about the signals of the store.
#[derive(Default)]
pub(super) struct Listening {
    /// Whether the last try to open a watch has found no signals.
    is_deaf: bool,
    /// How many watches in a row were over when they began.
    over_at_once: u32,
}

/// The outcome of opening a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The lock may be free.
    MayBeFree,
    /// The lock is held, and a signal will follow its release.
    Held,
    /// The store has no signals at the moment.
    Nothing,
}

impl Listening {
    /// The shortest time limit for opening a watch.
    pub(super) const SHORTEST_LIMIT: Duration = Duration::from_millis(200);

    /// Whether the head should open a watch.
    pub(super) fn is_wanted(&self, watch: Option<&KeyWatch>) -> bool {
        !self.is_deaf && watch.is_none_or(KeyWatch::is_over)
    }

    /// Opens a watch, and gives up at `limit`. Returns the watch unless it is over already.
    pub(super) async fn watch<B: LockBackend>(
        &mut self,
        backend: &B,
        key: &Key,
        limit: Instant,
    ) -> (Heard, Option<KeyWatch>) {
        let watch = backend.watch(WatchRequest::new(key.clone()));
        let watch = rt::until(limit, watch).await.flatten();
        let Some(watch) = watch else {
            *self = Self { is_deaf: true, over_at_once: 0 };
            return (Heard::Nothing, None);
        };
        if !watch.is_over() {
            *self = Self::default();
            let heard = if watch.is_locked() { Heard::Held } else { Heard::MayBeFree };
            return (heard, Some(watch));
        }
        (self.was_over_at_once(watch.is_locked()), None)
    }

    /// After a watch that is over at once, the head asks the store. Twice in a row it means that there are no
    /// signals, or that rivals hand the key on faster than a watch can begin. From the third time on, the
    /// head asks only if the watch found the lock free.
    fn was_over_at_once(&mut self, is_locked: bool) -> Heard {
        self.over_at_once = self.over_at_once.saturating_add(1);
        self.is_deaf = self.over_at_once > 1;
        match self.over_at_once {
            1 => Heard::MayBeFree,
            2 => Heard::Nothing,
            _ if is_locked => Heard::Nothing,
            _ => Heard::MayBeFree,
        }
    }

    /// Whether the last try has opened a watch, even a short one.
    pub(super) fn has_signals(&self) -> bool {
        !self.is_deaf || self.over_at_once > 0
    }

    /// When a head without signals tries to open a watch again: after a second if the store had no signals,
    /// and soon at first if watches were over at once. A lost connection may be back long before the next
    /// poll.
    pub(super) fn again_at(&self, now: Instant) -> Option<Instant> {
        const SHORTEST: Duration = Duration::from_millis(2);
        const LONGEST: Duration = Duration::from_secs(1);
        let pause = match self.over_at_once {
            0 | 1 => LONGEST,
            times => LONGEST.min(SHORTEST * (1 << (times - 2).min(9))),
        };
        self.is_deaf.then(|| now + pause)
    }

    /// Lets the head open a watch at the next occasion.
    pub(super) fn may_try(&mut self) {
        self.is_deaf = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(listening: &Listening) -> Option<u128> {
        let now = Instant::now();
        let at = listening.again_at(now)?;
        Some(at.saturating_duration_since(now).as_millis())
    }

    #[test]
    fn watches_that_are_over_at_once_are_begun_again_after_pauses_that_grow() {
        let mut listening = Listening::default();
        assert!(listening.is_wanted(None));
        assert!(listening.was_over_at_once(true) == Heard::MayBeFree);
        assert!(listening.is_wanted(None), "one signal is as good as any other");
        assert!(listening.was_over_at_once(false) == Heard::Nothing);
        assert!(!listening.is_wanted(None));
        let mut pauses = vec![pause(&listening)];
        for _ in 0..10 {
            listening.may_try();
            assert!(listening.was_over_at_once(true) == Heard::Nothing);
            pauses.push(pause(&listening));
        }
        let pauses: Vec<_> = pauses.into_iter().flatten().collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000]);
        assert!(listening.was_over_at_once(false) == Heard::MayBeFree, "no signal follows");
    }

    #[test]
    fn a_watch_that_goes_on_is_enough() {
        let listening = Listening::default();
        let (signal, watch) = KeyWatch::new();
        assert!(!listening.is_wanted(Some(&watch)));
        drop(signal);
        assert!(listening.is_wanted(Some(&watch)));
        assert_eq!(pause(&listening), None);
    }
}
