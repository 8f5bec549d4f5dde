//! Locks whose acquire was sent more than once.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syncguard_core::LockId;
use syncguard_core::authoring::cancel::Unsettled;

/// For each of them, as long as it matters: an earlier sending may arrive after the release.
#[derive(Debug, Default)]
pub(crate) struct Doubtful(Mutex<VecDeque<Doubt>>);

/// In the order in which they were noted.
#[derive(Debug)]
struct Doubt {
    acquire: Unsettled,
    /// When the server has refused every sending, by any clock.
    over: Instant,
}

impl Doubtful {
    /// A pool does not lose more connections than this while an acquire may be on its way. Beyond it the oldest
    /// entries are dropped.
    const LIMIT: usize = 1000;

    /// How wrong our idea of the server's clock may be.
    const CLOCKS: Duration = Duration::from_secs(2);

    /// An acquire that the server refuses when this time has gone by.
    pub(crate) fn note(&self, acquire: Unsettled, bound: Duration) {
        self.note_at(acquire, bound, Instant::now());
    }

    fn note_at(&self, acquire: Unsettled, bound: Duration, now: Instant) {
        let mut doubts = self.doubts();
        doubts.retain(|doubt| now < doubt.over);
        if doubts.len() >= Self::LIMIT {
            doubts.pop_front();
        }
        // Only a bound of centuries has no end, and is taken for none.
        let over = now.checked_add(bound.saturating_add(Self::CLOCKS)).unwrap_or(now);
        doubts.push_back(Doubt { acquire, over });
    }

    /// What is to be settled now that the lock was released.
    pub(crate) fn take(&self, lock_id: LockId) -> Option<Unsettled> {
        let mut doubts = self.doubts();
        let at = doubts.iter().position(|doubt| doubt.acquire.lock_id == lock_id)?;
        doubts.remove(at).map(|doubt| doubt.acquire)
    }

    fn doubts(&self) -> MutexGuard<'_, VecDeque<Doubt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use syncguard_core::Timestamp;
    use syncguard_core::contract::AcquireRequest;

    use super::*;

    const BOUND: Duration = Duration::from_secs(5);

    fn acquire() -> Unsettled {
        let request = AcquireRequest::new("key", Duration::from_secs(30)).unwrap();
        Unsettled::new(&request, Timestamp::from_millis(1).unwrap(), BOUND)
    }

    #[tokio::test]
    async fn the_oldest_are_dropped_where_there_are_too_many() {
        let (doubtful, now) = (Doubtful::default(), Instant::now());
        let all: Vec<Unsettled> = (0..Doubtful::LIMIT + 10).map(|_| acquire()).collect();
        for acquire in &all {
            doubtful.note_at(acquire.clone(), BOUND, now);
        }
        let kept = |acquire: &Unsettled| doubtful.take(acquire.lock_id).is_some();
        let (oldest, others) = all.split_at(10);
        assert!(!oldest.iter().any(kept));
        assert!(others.iter().all(kept));
        assert!(!kept(&all[20]), "once");
    }

    #[tokio::test]
    async fn one_that_cannot_arrive_any_more_is_forgotten() {
        let (doubtful, start) = (Doubtful::default(), Instant::now());
        let (early, late) = (acquire(), acquire());
        doubtful.note_at(early.clone(), BOUND, start);
        let before = start + BOUND + Doubtful::CLOCKS;
        doubtful.note_at(late.clone(), BOUND, start + BOUND);
        assert_eq!(doubtful.doubts().len(), 2);
        doubtful.note_at(acquire(), BOUND, before);
        assert_eq!(doubtful.doubts().len(), 2);
        assert!(doubtful.take(early.lock_id).is_none() && doubtful.take(late.lock_id).is_some());
    }
}
