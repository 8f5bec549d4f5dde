//! The reports to an observer, and panics in an observer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::FaultyBackend;
use syncguard_core::observe::{AcquisitionEnd, LockObserver, Observation, ObservedEvent};
use syncguard_core::shared::ClientState;
use syncguard_core::{LockConfig, LossReason, acquire, lock, try_acquire};

#[tokio::test(start_paused = true)]
async fn two_joined_observers_both_get_wait_and_hold() {
    let (first, second) = (Recorder::default(), Recorder::default());
    let backend = observed(first.observer().and(second.observer()));
    lock(&backend, "key", async |_| tokio::time::sleep(SECOND).await).await.unwrap();
    for recorder in [first, second] {
        let all = recorder.take();
        let [waiting, holding, wait, hold] = &all[..] else { panic!("{all:?}") };
        assert!(matches!(waiting.event, ObservedEvent::AcquisitionBegan));
        assert!(matches!(holding.event, ObservedEvent::HoldBegan));
        let ObservedEvent::Acquisition { end, attempts, .. } = wait.event else {
            panic!("{wait:?}")
        };
        assert_eq!((end, attempts), (AcquisitionEnd::Acquired, 1));
        let ObservedEvent::Hold { reason, held, .. } = hold.event else { panic!("{hold:?}") };
        assert_eq!((reason, held), (LossReason::Released, SECOND));
        for observation in &all {
            assert_eq!((observation.key.expose(), observation.lock_id), ("key", hold.lock_id));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_observer_breaks_neither_the_lock_nor_the_other_observer() {
    let recorder = Recorder::default();
    let broken = LockObserver::new(|_| panic!("as the test wants it"));
    for observer in [broken.clone().and(recorder.observer()), recorder.observer().and(broken)] {
        let backend = observed(observer);
        let guard = try_acquire(&backend, "key").await.unwrap().acquired().unwrap();
        assert!(guard.release().await.unwrap().is_released());
        let worked = lock(&backend, "key", async |_| 7).await.unwrap();
        assert_eq!((worked, recorder.take().len()), (7, 8));
    }
}

#[test]
fn an_observer_joined_with_none_still_observes() {
    assert!(LockObserver::default().is_none());
    assert!(LockObserver::default().and(LockObserver::default()).is_none());
    let recorder = Recorder::default();
    assert!(!LockObserver::default().and(recorder.observer()).is_none());
    assert!(!recorder.observer().and(LockObserver::default()).is_none());
    assert!(ClientState::default().observer().is_none());
}

/// Each start is followed by an end, in whatever way the caller ends.
#[tokio::test(start_paused = true)]
async fn every_start_is_followed_by_an_end() {
    let recorder = Recorder::default();
    let backend = observed(recorder.observer());
    let guard = acquire(&backend, "key").await.unwrap();
    assert!(try_acquire(&backend, "key").await.unwrap().is_busy());
    let waiting = tokio::time::timeout(SECOND, acquire(&backend, "key"));
    assert!(waiting.await.is_err());
    acquire(&backend, "").await.unwrap_err();
    drop(guard);
    let (mut waits, mut holds) = ((0, 0), (0, 0));
    for observation in recorder.take() {
        match observation.event {
            ObservedEvent::AcquisitionBegan => waits.0 += 1,
            ObservedEvent::Acquisition { .. } => waits.1 += 1,
            ObservedEvent::HoldBegan => holds.0 += 1,
            ObservedEvent::Hold { .. } => holds.1 += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((waits, holds), ((3, 3), (1, 1)));
}

#[tokio::test(start_paused = true)]
async fn only_a_caller_behind_others_of_its_process_stands_in_the_queue() {
    let recorder = Recorder::default();
    let backend = observed(recorder.observer());
    let _held = acquire(&backend, "key").await.unwrap();
    let waits = |limit| acquire(&backend, LockConfig::new("key").with_wait_up_to(limit));
    // The first is the head, and the second never is.
    assert!(tokio::join!(waits(2 * SECOND), waits(SECOND)).1.is_err());
    let queued = recorder.take().into_iter().filter_map(|observation| match observation.event {
        ObservedEvent::Acquisition { queued, .. } => Some(queued),
        _ => None,
    });
    assert_eq!(queued.collect::<Vec<_>>(), [Duration::ZERO, SECOND, Duration::ZERO]);
}

#[test]
fn two_observers_log_if_one_does() {
    let silent = || LockObserver::new(|_| ());
    assert!(!silent().logs() && !silent().and(silent()).logs());
    assert!(silent().with_logging().and(silent()).logs());
    assert!(silent().and(silent().with_logging()).logs());
    assert!(!LockObserver::default().with_logging().logs());
}

const SECOND: Duration = Duration::from_secs(1);

fn observed(observer: LockObserver) -> FaultyBackend {
    FaultyBackend::with_client_state(ClientState::default().with_observer(observer))
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Observation>>>);

impl Recorder {
    fn observer(&self) -> LockObserver {
        let observations = Arc::clone(&self.0);
        LockObserver::new(move |observation| observations.lock().unwrap().push(observation.clone()))
    }

    fn take(&self) -> Vec<Observation> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
