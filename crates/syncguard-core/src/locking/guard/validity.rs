//! How long a holder may rely on its lock, and how it learns of the end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[cfg(not(test))]
use super::expiry;
use crate::contract::loss_reason::LossReason;
use crate::contract::response::ExtendResult;
use crate::locking::observed::ObservedHold;
use crate::rt::{self, Instant, Mutex, Spawner};
use crate::value::{LockError, Timestamp};

/// The state that a guard, its renewer and every [`Held`](super::Held) share.
pub(crate) struct Validity {
    phase: Mutex<Phase>,
    /// Fires when the lock is over. Made on demand by [`Self::over`].
    over: OnceLock<CancellationToken>,
    /// When the lock ends even if it is renewed.
    pub(super) cap: Option<Instant>,
    /// Whether a task or a thread already makes sure that `over` fires in time.
    is_watched: AtomicBool,
    /// Tells the task that watches the lock that it ends sooner than before.
    sooner: Notify,
    /// Whether the expiry thread watches the lock.
    #[cfg(not(test))]
    is_watched_by_thread: AtomicBool,
    /// Reports the end to the observer, if there is one.
    observed: Option<Box<ObservedHold>>,
    /// Why an extend failed, if none has succeeded since.
    failure: Mutex<Option<Box<LockError>>>,
}

#[derive(Clone, Copy)]
enum Phase {
    Held { until: Instant, expires_at: Timestamp },
    Over { reason: LossReason, expires_at: Timestamp },
}

impl Validity {
    pub(crate) fn new(
        until: Instant,
        expires_at: Timestamp,
        cap: Option<Instant>,
        observed: Option<Box<ObservedHold>>,
    ) -> Self {
        let until = earlier(until, cap);
        Self {
            phase: Mutex::new(Phase::Held { until, expires_at }),
            over: OnceLock::new(),
            cap,
            is_watched: AtomicBool::new(false),
            sooner: Notify::new(),
            #[cfg(not(test))]
            is_watched_by_thread: AtomicBool::new(false),
            observed,
            failure: Mutex::new(None),
        }
    }

    /// Why an extend failed, if none has succeeded since.
    pub(crate) fn failure(&self) -> Option<LockError> {
        self.failure.lock().as_deref().cloned()
    }

    /// Notes how an extend ended. A lock that is over keeps the failure that led to its end. An attempt that is cut off, the
    /// last ones soon, tells less than a failure before it.
    pub(crate) fn extend_ended(&self, result: &Result<ExtendResult, LockError>, is_cut_off: bool) {
        let mut failure = self.failure.lock();
        let is_known = is_cut_off && failure.is_some();
        if !is_known && !matches!(result, Ok(ExtendResult::NotHeld(_))) {
            *failure = result.as_ref().err().cloned().map(Box::new);
        }
    }

    /// Until when the holder may rely on the lock, or why the lock is over.
    pub(crate) fn until(&self) -> Result<Instant, LossReason> {
        match *self.phase.lock() {
            Phase::Held { until, .. } => Ok(until),
            Phase::Over { reason, .. } => Err(reason),
        }
    }

    pub(crate) fn expires_at(&self) -> Timestamp {
        match *self.phase.lock() {
            Phase::Held { expires_at, .. } | Phase::Over { expires_at, .. } => expires_at,
        }
    }

    /// The lock was extended, and lives at most until the cap. Changes nothing if the lock or its time is
    /// over: a loss is final, even if it was not noticed yet.
    ///
    /// The store may keep the lock a little longer than the cap, because the TTL was cut some time before
    /// the request was sent.
    pub(crate) fn renewed(&self, until: Instant, expires_at: Timestamp) -> Result<(), LossReason> {
        self.check()?;
        let until = earlier(until, self.cap);
        let mut phase = self.phase.lock();
        let before = match *phase {
            Phase::Held { until: before, .. } => before,
            Phase::Over { reason, .. } => return Err(reason),
        };
        *phase = Phase::Held { until, expires_at };
        drop(phase);
        if until < before {
            self.wake_watchers();
        }
        Ok(())
    }

    /// The store has reported when the lock expires. The time that the holder may rely on stays the same.
    pub(crate) fn set_expires_at(&self, reported: Timestamp) {
        if let Phase::Held { expires_at, .. } = &mut *self.phase.lock() {
            *expires_at = reported;
        }
    }

    /// An extend is about to be sent that would end the lock at this time. Until its answer comes, the
    /// holder may rely only on the earlier of both ends.
    pub(crate) fn extend_sent(&self, requested: Instant) {
        match &mut *self.phase.lock() {
            Phase::Held { until, .. } if requested < *until => *until = requested,
            _ => return,
        }
        self.wake_watchers();
    }

    /// Wakes the task and the thread that wait for the former end.
    fn wake_watchers(&self) {
        self.sooner.notify_waiters();
        #[cfg(not(test))]
        if self.is_watched_by_thread.load(Ordering::Relaxed) {
            expiry::check_all();
        }
    }

    /// Ends the lock. The first reason stands.
    pub(crate) fn end(&self, reason: LossReason) {
        let mut phase = self.phase.lock();
        if let Phase::Held { until, expires_at } = *phase {
            *phase = Phase::Over { reason, expires_at };
            drop(phase);
            self.announce(reason, until);
        }
    }

    /// The token that fires when the lock is over.
    fn over(&self) -> &CancellationToken {
        let over = self.over.get_or_init(CancellationToken::new);
        // The lock may have ended before this token was made.
        if self.until().is_err() {
            over.cancel();
        }
        over
    }

    /// Tells all waiting tasks and the observer. Called once, when the lock is over.
    fn announce(&self, reason: LossReason, until: Instant) {
        if let Some(over) = self.over.get() {
            over.cancel();
        }
        if let Some(observed) = &self.observed {
            observed.end(reason, until, || self.reason_of_expiry(until));
        }
    }

    /// Ends the lock if its time is over. Returns until when it lives, or why it is over.
    pub(crate) fn check(&self) -> Result<Instant, LossReason> {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Over { reason, .. } => Err(reason),
            Phase::Held { until, .. } if Instant::now() < until => Ok(until),
            Phase::Held { until, expires_at } => {
                let reason = self.reason_of_expiry(until);
                *phase = Phase::Over { reason, expires_at };
                drop(phase);
                self.announce(reason, until);
                Err(reason)
            }
        }
    }

    /// Whether the observer logs a loss.
    pub(crate) fn logs_loss(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.is_logged())
    }

    /// The reason for an end at this time. A lock can reach its cap up to a millisecond early, because the
    /// last TTL is cut to whole milliseconds.
    fn reason_of_expiry(&self, until: Instant) -> LossReason {
        match self.cap {
            Some(cap) if cap.saturating_duration_since(until) < Duration::from_millis(1) => {
                LossReason::MaxHold
            }
            _ => LossReason::Expired,
        }
    }

    /// Makes sure that `over` fires in time, even outside a runtime or after a runtime has ended.
    pub(crate) fn watch(self: &Arc<Self>) {
        if self.is_watched.swap(true, Ordering::Relaxed) {
            return;
        }
        if rt::is_usable() {
            let watcher = Watcher { validity: Arc::clone(self), is_done: false };
            Spawner::current().spawn(watcher.run());
        } else {
            self.watch_without_runtime();
        }
    }

    /// The renewer makes sure that `over` fires in time, so that no other watch is needed.
    pub(crate) fn watched_by_renewer(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// The renewer has ended early, and no task renews the lock any more.
    pub(crate) fn renewer_ended(self: &Arc<Self>) {
        if std::thread::panicking() {
            self.end(LossReason::RenewerPanicked);
        } else {
            self.watch_without_runtime();
        }
    }

    #[cfg(not(test))]
    fn watch_without_runtime(self: &Arc<Self>) {
        self.is_watched_by_thread.store(true, Ordering::Relaxed);
        let lock: Arc<dyn expiry::Expires> = Arc::clone(self) as _;
        expiry::watch(&lock);
    }

    /// The model has one runtime, which never ends.
    #[cfg(test)]
    #[expect(clippy::unused_self, reason = "the real one needs it")]
    fn watch_without_runtime(self: &Arc<Self>) {}

    /// A token that fires when the lock is over.
    pub(crate) fn lost_token(self: &Arc<Self>) -> CancellationToken {
        self.watch();
        self.over().child_token()
    }

    /// Waits until the lock is over, in a runtime or outside.
    ///
    /// The future checks the clock on every poll, and not only when it is woken. So a task that selects over
    /// several futures, and is woken late for another of them, sees the loss first.
    pub(crate) async fn lost(self: Arc<Self>) -> LossReason {
        self.watch();
        let mut over = pin!(self.over().cancelled());
        poll_fn(|context| match self.check() {
            Err(reason) => Poll::Ready(reason),
            // The token wakes this task when it fires. Then the lock is over, and `check` returns the reason.
            Ok(_) => match over.as_mut().poll(context) {
                Poll::Ready(()) => self.until().map_or_else(Poll::Ready, |_| Poll::Pending),
                Poll::Pending => Poll::Pending,
            },
        })
        .await
    }

    /// Waits until the time of the lock is over, even if that becomes shorter meanwhile, and ends the lock.
    pub(crate) async fn time_is_over(&self) {
        loop {
            let mut sooner = pin!(self.sooner.notified());
            sooner.as_mut().enable();
            let Ok(until) = self.check() else { return };
            tokio::select! {
                biased;
                () = sooner => {}
                () = rt::sleep_until(until) => {}
            }
        }
    }
}

#[cfg(not(test))]
impl expiry::Expires for Validity {
    fn end_if_over(&self) -> Option<Instant> {
        self.check().ok()
    }
}

/// The task that watches a lock. If its runtime ends first, the expiry thread takes over.
struct Watcher {
    validity: Arc<Validity>,
    is_done: bool,
}

impl Watcher {
    async fn run(mut self) {
        tokio::select! {
            biased;
            () = self.validity.over().cancelled() => {}
            () = self.validity.time_is_over() => {}
        }
        self.is_done = true;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.is_done {
            self.validity.watch_without_runtime();
        }
    }
}

fn earlier(until: Instant, cap: Option<Instant>) -> Instant {
    cap.map_or(until, |cap| cap.min(until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::model;

    /// A renewal is cut to the cap before it is sent. If time passes in between, its TTL reaches beyond the cap.
    #[test]
    fn a_renewal_beyond_the_cap_counts_until_the_cap() {
        model::explore_without_time(1, || async {
            let ttl = Duration::from_secs(1);
            let (cap, expires_at) = (Instant::now() + ttl, Timestamp::from_millis(0).unwrap());
            let validity = Validity::new(cap, expires_at, Some(cap), None);
            validity.renewed(cap + ttl, expires_at).unwrap();
            assert_eq!(validity.until(), Ok(cap));
        });
    }
}
