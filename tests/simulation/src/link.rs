//! A process's end of the network, and its clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::{ErrorCode, LockError};
use syncguard_history::Random;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::network::{EPOCH, MILLI, Net, Network, Outcome, PendingCall, SECOND};
use crate::protocol::{Reply, Request};

/// The time limit for an answer, in a simulation.
pub(crate) const BOUND: Duration = Duration::from_millis(300);

/// The largest error of a process's wall clock in milliseconds, in both directions: an hour.
const MOST_SKEWED: u64 = 3_600_000;

/// The largest error of the clock that schedules go by.
const MOST_LATE: u64 = 200;

pub(crate) struct Link {
    net: Net,
    pub(crate) member: usize,
    /// The time limit for an answer.
    pub(crate) bound: Duration,
    /// The start of the process's clock, by both clocks.
    started: (Instant, u64),
    /// The microseconds for which its monotonic clock has stood still.
    asleep: Arc<AtomicU64>,
    /// `None`: the wall clock is right.
    skew: Option<Mutex<Skew>>,
}

/// The error of a process's wall clock. It changes from time to time.
struct Skew {
    random: Random,
    millis: u64,
    until: u64,
}

impl Link {
    /// The link of a process that starts at this time, in microseconds.
    pub(crate) fn new(net: Net, member: usize, at: u64, asleep: Arc<AtomicU64>) -> Self {
        let random = Random::new(net.state().random.number());
        let skew = Mutex::new(Skew { random, millis: MOST_SKEWED, until: 0 });
        Self { net, member, bound: BOUND, started: (Instant::now(), at), asleep, skew: Some(skew) }
    }

    /// The link of the only process, whose clock is right. It waits long, since the machine may be busy.
    pub(crate) fn exact(net: Net) -> Self {
        let bound = Duration::from_secs(20);
        Self {
            net,
            member: 0,
            bound,
            started: (Instant::now(), 0),
            asleep: Arc::default(),
            skew: None,
        }
    }

    pub(crate) fn network(&self) -> MutexGuard<'_, Network> {
        self.net.state()
    }

    /// Microseconds since the beginning of the simulation.
    pub(crate) fn now(&self) -> u64 {
        let passed = self.started.0.elapsed().as_micros();
        let asleep = self.asleep.load(Ordering::Relaxed);
        self.started.1 + asleep + u64::try_from(passed).unwrap_or(u64::MAX)
    }

    /// A better clock of the process, by which a schedule finds its ticks, in milliseconds.
    pub(crate) fn schedule(&self) -> u64 {
        let late = self.wall().wrapping_sub(EPOCH) % (2 * MOST_LATE);
        EPOCH + self.now() / MILLI + late - MOST_LATE
    }

    /// The process's wall clock, in milliseconds.
    pub(crate) fn wall(&self) -> u64 {
        let now = self.now();
        let Some(skew) = &self.skew else { return EPOCH + now / MILLI };
        let mut skew = skew.lock().unwrap_or_else(PoisonError::into_inner);
        if skew.until <= now {
            skew.millis = skew.random.below(2 * MOST_SKEWED + 1);
            skew.until = now + 200 * MILLI + skew.random.below(2 * SECOND);
        }
        EPOCH + now / MILLI + skew.millis - MOST_SKEWED
    }

    pub(crate) fn send(&self, request: Request) -> (PendingCall, oneshot::Receiver<Outcome>) {
        self.net.send(self.member, self.now(), request)
    }

    /// Waits until a connection is open; `None` if the server refuses it.
    pub(crate) async fn connected(&self) -> Option<()> {
        let takes = self.network().opens(self.member, self.now())?;
        sleep(Duration::from_micros(takes)).await;
        Some(())
    }

    /// Asks the store with the registers.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, LockError> {
        let (_pending, answer) = self.send(request);
        match timeout(self.bound, answer).await {
            Ok(Ok(Outcome::Answered(reply, _))) => Ok(reply),
            Ok(_) => Err(LockError::new(ErrorCode::ServiceUnavailable, "the connection was lost")),
            Err(_) => Err(LockError::new(ErrorCode::NetworkTimeout, "no answer")),
        }
    }
}
