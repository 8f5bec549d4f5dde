//! Acquires that were sent more than once and have taken their lock.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syncguard_core::LockId;
use syncguard_core::authoring::cancel::Unsettled;

/// The resent acquires, for as long as an earlier sending may still arrive: after the release it would take the
/// lock again.
#[derive(Debug, Default)]
pub(crate) struct ResentAcquires(Mutex<VecDeque<ResentAcquire>>);

/// An acquire in the queue, which is in the order in which the acquires were noted.
#[derive(Debug)]
struct ResentAcquire {
    acquire: Unsettled,
    /// From here on the server has refused every sending, by any clock.
    over: Instant,
}

impl ResentAcquires {
    /// A pool does not lose more connections than this while an acquire may be on its way. Above the limit the
    /// oldest entries are dropped.
    const LIMIT: usize = 1000;

    /// Error margin of the estimated server clock.
    const CLOCK_MARGIN: Duration = Duration::from_secs(2);

    /// Notes an acquire that the server refuses after this time.
    pub(crate) fn note(&self, acquire: Unsettled, bound: Duration) {
        self.note_at(acquire, bound, Instant::now());
    }

    fn note_at(&self, acquire: Unsettled, bound: Duration, now: Instant) {
        let mut queue = self.queue();
        queue.retain(|resent| now < resent.over);
        if queue.len() >= Self::LIMIT {
            queue.pop_front();
        }
        // Only a bound of centuries overflows, and is taken for none.
        let over = now.checked_add(bound.saturating_add(Self::CLOCK_MARGIN)).unwrap_or(now);
        queue.push_back(ResentAcquire { acquire, over });
    }

    /// Removes and returns the acquire to settle after the release of this lock.
    pub(crate) fn take(&self, lock_id: LockId) -> Option<Unsettled> {
        let mut queue = self.queue();
        let at = queue.iter().position(|resent| resent.acquire.lock_id == lock_id)?;
        queue.remove(at).map(|resent| resent.acquire)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<ResentAcquire>> {
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
    async fn the_oldest_are_dropped_above_the_limit() {
        let (resent, now) = (ResentAcquires::default(), Instant::now());
        let all: Vec<Unsettled> = (0..ResentAcquires::LIMIT + 10).map(|_| acquire()).collect();
        for acquire in &all {
            resent.note_at(acquire.clone(), BOUND, now);
        }
        let kept = |acquire: &Unsettled| resent.take(acquire.lock_id).is_some();
        let (oldest, others) = all.split_at(10);
        assert!(!oldest.iter().any(kept));
        assert!(others.iter().all(kept));
        assert!(!kept(&all[20]), "once");
    }

    #[tokio::test]
    async fn an_acquire_that_cannot_arrive_any_more_is_forgotten() {
        let (resent, start) = (ResentAcquires::default(), Instant::now());
        let (early, late) = (acquire(), acquire());
        resent.note_at(early.clone(), BOUND, start);
        let before = start + BOUND + ResentAcquires::CLOCK_MARGIN;
        resent.note_at(late.clone(), BOUND, start + BOUND);
        assert_eq!(resent.queue().len(), 2);
        resent.note_at(acquire(), BOUND, before);
        assert_eq!(resent.queue().len(), 2);
        assert!(resent.take(early.lock_id).is_none() && resent.take(late.lock_id).is_some());
    }
}
