//! What a holder may rely on, and how it learns that it is over.

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
use super::loss::LossReason;
use crate::Timestamp;
use crate::locking::observed::Holding;
use crate::rt::{self, Instant, Mutex, Spawner};

/// The state that a guard, its renewer and every [`Held`] share.
pub(crate) struct Validity {
    phase: Mutex<Phase>,
    /// Fires when the lock is over. Made when somebody wants to hear of that; then see [`Self::over`].
    over: OnceLock<CancellationToken>,
    /// When the lock ends however often it is renewed.
    cap: Option<Instant>,
    /// Whether somebody already makes sure that `over` fires in time.
    watched: AtomicBool,
    /// Tells the task that watches the lock that it ends sooner than before.
    sooner: Notify,
    /// Whether the thread watches it.
    #[cfg(not(test))]
    is_watched_by_thread: AtomicBool,
    /// Who is to hear of the end, if anybody is.
    holding: Option<Box<Holding>>,
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
        holding: Option<Box<Holding>>,
    ) -> Self {
        let until = earlier(until, cap);
        Self {
            phase: Mutex::new(Phase::Held { until, expires_at }),
            over: OnceLock::new(),
            cap,
            watched: AtomicBool::new(false),
            sooner: Notify::new(),
            #[cfg(not(test))]
            is_watched_by_thread: AtomicBool::new(false),
            holding,
        }
    }

    /// When the holder must stop, or why it had to.
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

    /// When the lock ends however often it is renewed.
    pub(crate) fn cap(&self) -> Option<Instant> {
        self.cap
    }

    /// The lock lives on, at most until the cap. Changes nothing once it is over, or its time is: a loss
    /// is final, whether anybody noticed it or not.
    ///
    /// The store may keep it for a little longer: what it was asked for was cut to the cap some time
    /// before the request was sent.
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
            self.ends_sooner();
        }
        Ok(())
    }

    /// The store said when the lock expires. What the holder may rely on stays as it is.
    pub(crate) fn told(&self, told: Timestamp) {
        if let Phase::Held { expires_at, .. } = &mut *self.phase.lock() {
            *expires_at = told;
        }
    }

    /// An extend is about to be sent that would end the lock at this time. Until the answer is
    /// here, only the earlier of both ends can be relied on.
    pub(crate) fn extending(&self, requested: Instant) {
        match &mut *self.phase.lock() {
            Phase::Held { until, .. } if requested < *until => *until = requested,
            _ => return,
        }
        self.ends_sooner();
    }

    /// For those who wait for the end that was known before.
    fn ends_sooner(&self) {
        self.sooner.notify_waiters();
        #[cfg(not(test))]
        if self.is_watched_by_thread.load(Ordering::Relaxed) {
            expiry::look_again();
        }
    }

    /// The lock is over. The first reason stands.
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
        // Whoever ended the lock before may not have seen it.
        if self.until().is_err() {
            over.cancel();
        }
        over
    }

    /// Tells everyone who waits for the end or wants to hear of it. Called once, when the lock is over.
    fn announce(&self, reason: LossReason, until: Instant) {
        if let Some(over) = self.over.get() {
            over.cancel();
        }
        if let Some(holding) = &self.holding {
            holding.end(reason, until, || self.why_it_ends(until));
        }
    }

    /// Ends the lock if its time has come; says when it will, or why it did.
    pub(crate) fn check(&self) -> Result<Instant, LossReason> {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Over { reason, .. } => Err(reason),
            Phase::Held { until, .. } if Instant::now() < until => Ok(until),
            Phase::Held { until, expires_at } => {
                let reason = self.why_it_ends(until);
                *phase = Phase::Over { reason, expires_at };
                drop(phase);
                self.announce(reason, until);
                Err(reason)
            }
        }
    }

    /// Whether whoever hears of a loss logs it.
    pub(crate) fn logs_loss(&self) -> bool {
        self.holding.as_ref().is_some_and(|holding| holding.is_logged())
    }

    /// Why a lock ends that ends at this time: the last TTL before the cap is cut to whole milliseconds.
    fn why_it_ends(&self, until: Instant) -> LossReason {
        match self.cap {
            Some(cap) if cap.saturating_duration_since(until) < Duration::from_millis(1) => {
                LossReason::MaxHold
            }
            _ => LossReason::Expired,
        }
    }

    /// Makes sure that `over` fires in time, also outside of a runtime, and after a runtime has ended.
    pub(crate) fn watch(self: &Arc<Self>) {
        if self.watched.swap(true, Ordering::Relaxed) {
            return;
        }
        if rt::is_usable() {
            let watcher = Watcher { validity: Arc::clone(self), is_done: false };
            Spawner::current().spawn(watcher.run());
        } else {
            self.watch_without_runtime();
        }
    }

    /// The renewer makes sure that `over` fires in time.
    pub(crate) fn kept(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// The renewer is gone, and nobody renews the lock any more.
    pub(crate) fn unkept(self: &Arc<Self>) {
        if std::thread::panicking() {
            self.end(LossReason::RenewerPanicked);
        } else {
            self.watch_without_runtime();
        }
    }

    #[cfg(not(test))]
    fn watch_without_runtime(self: &Arc<Self>) {
        self.is_watched_by_thread.store(true, Ordering::Relaxed);
        let lock: Arc<dyn expiry::Ends> = Arc::clone(self) as _;
        expiry::watch(&lock);
    }

    /// The model has one runtime, and it never ends.
    #[cfg(test)]
    #[expect(clippy::unused_self, reason = "the real one needs it")]
    fn watch_without_runtime(self: &Arc<Self>) {}

    /// A token that fires when the lock is over.
    pub(crate) fn lost_token(self: &Arc<Self>) -> CancellationToken {
        self.watch();
        self.over().child_token()
    }

    /// Waits until the lock is over, in a runtime or outside of one.
    ///
    /// It looks at the clock each time it is polled, and not only when it is woken: whoever waits for
    /// several things, and wakes up for another one after a pause, hears of the loss first.
    pub(crate) async fn lost(self: Arc<Self>) -> LossReason {
        self.watch();
        let mut over = pin!(self.over().cancelled());
        poll_fn(|context| match self.check() {
            Err(reason) => Poll::Ready(reason),
            // It wakes us when it fires. Then the lock is over, and so it is found above.
            Ok(_) => match over.as_mut().poll(context) {
                Poll::Ready(()) => self.until().map_or_else(Poll::Ready, |_| Poll::Pending),
                Poll::Pending => Poll::Pending,
            },
        })
        .await
    }

    /// Waits until the lock is over, in a runtime, and lets everyone know.
    async fn ended(&self) {
        tokio::select! {
            biased;
            () = self.over().cancelled() => {}
            () = self.time_is_over() => {}
        }
    }

    /// Waits until the holder's time is over, also where it becomes shorter meanwhile, and lets everyone know.
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
impl expiry::Ends for Validity {
    fn ends_at(&self) -> Option<Instant> {
        self.check().ok()
    }
}

/// The task that watches a lock. Where its runtime ends first, the watch goes on without one.
struct Watcher {
    validity: Arc<Validity>,
    is_done: bool,
}

impl Watcher {
    async fn run(mut self) {
        self.validity.ended().await;
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
