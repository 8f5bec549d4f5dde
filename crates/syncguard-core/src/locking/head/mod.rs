//! The head of a queue: the only waiter of the process that contends in the store.

mod sharing;
mod watching;

pub use self::watching::open_watch;

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::call::{Call, Tried};
use super::cancellable::{sleep_unless_cancelled, unless_cancelled};
use super::false_signals::FalseSignals;
use super::guard::LockGuard;
use super::observed::ObservedAcquisition;
use super::pauses::Pauses;
use crate::backend::LockBackend;
use crate::client::queue::{CHECK_INTERVAL, Ticket, Turn};
use crate::contract::liveness::TIME_STEP;
use crate::contract::response::Contention;
use crate::rt::{self, Instant, sleep_until};
use crate::value::{LockError, LockId};

/// The longest time between two polls of a head that is told of the release: what a signal that is lost costs.
const QUIET: Duration = Duration::from_secs(5);

/// The head of a queue.
pub(super) struct Head<'a, B> {
    call: &'a Call<'a, B>,
    deadline: Instant,
    pauses: Pauses<'a>,
    answers: Answers,
    ticket: Ticket,
    /// Whether the store gave signals at the last try.
    has_signals: bool,
    false_signals: FalseSignals,
    /// When the lock of the present holder expires, as the store or the queue reported last.
    free_at: Option<Instant>,
    holder: HeldBy,
    /// Why the head woke up last.
    woken: Woken,
}

/// The present holder, as far as the head knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldBy {
    Unknown,
    /// A guard of this process: its release wakes the head, so the head needs no watch.
    Local,
    Rival {
        /// Whether it may release without a signal, as far as the store has said it.
        polls: Option<bool>,
    },
}

/// Why the head wakes up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// A guard of this process has released the lock, or this waiter has become the head.
    Queue,
    /// The store signals that the lock may be free.
    Signal,
    /// The holder's lock has expired.
    Expiry,
    /// A poll is due.
    Poll,
}

/// The outcome of an attempt.
enum Asked<B: LockBackend> {
    Granted(LockGuard<B>),
    Busy,
    /// Another holder had the lock, and may have released it since.
    MayBeFree,
}

impl<'a, B: LockBackend> Head<'a, B> {
    /// Contends until the lock is granted, or a limit is reached. `came` is the present time for a waiter that stood behind
    /// no other.
    pub(super) fn run(
        call: &'a Call<'a, B>,
        observed: &'a mut ObservedAcquisition<'_>,
        ticket: Ticket,
        turn: Turn,
        came: Option<Instant>,
        deadline: Instant,
    ) -> impl Future<Output = Result<LockGuard<B>, LockError>> + Send {
        let mut this = Self {
            call,
            deadline,
            pauses: Pauses::new(&call.policy.acquisition),
            answers: Answers::default(),
            ticket,
            has_signals: true,
            false_signals: FalseSignals::default(),
            free_at: None,
            holder: HeldBy::Unknown,
            woken: Woken::Queue,
        };
        // Made outside, so that the future holds it only once.
        async move {
            let mut now = came.unwrap_or_else(Instant::now);
            if came.is_none() || !matches!(turn, Turn::Ask) {
                // If no time is left for an own answer, the answers to earlier heads count.
                this.answers.last_is_contention = this.ticket.is_contended(now);
            }
            observed.on_head();
            if let Turn::Held(until) = turn {
                this.set_local_holder(until);
                Box::pin(this.wait()).await?;
                now = Instant::now();
            }
            loop {
                let mut is_taken = false;
                if let Some(pause) = this.pause(now) {
                    is_taken = Box::pin(this.leave_free(pause, now)).await?;
                    now = Instant::now();
                }
                if !is_taken {
                    match this.ask(observed, now).await? {
                        Asked::Granted(guard) => return Ok(guard),
                        Asked::MayBeFree => {
                            now = Instant::now();
                            continue;
                        }
                        Asked::Busy => {}
                    }
                }
                Box::pin(this.wait()).await?;
                now = Instant::now();
            }
        }
    }

    /// One attempt in the store, at this time.
    async fn ask(
        &mut self,
        observed: &mut ObservedAcquisition<'_>,
        sent: Instant,
    ) -> Result<Asked<B>, LockError> {
        let lock_id = observed.next_attempt();
        self.answers.attempts = observed.attempts();
        if let Some(watch) = &mut self.ticket.watch {
            // This attempt answers all earlier signals.
            watch.forget();
        }
        let has_lost = self.ticket.on_attempt(sent);
        let (tried, may_be_free) = if has_lost && self.wants_watch() {
            Box::pin(self.try_and_watch(lock_id, sent)).await?
        } else {
            // A dropped attempt cleans up after itself: see `LockBackend::acquire`.
            let once =
                self.call.once(lock_id, sent, Some(&mut self.ticket), self.woken == Woken::Poll);
            let tried = rt::until(self.deadline, once).await;
            self.on_answer(tried.as_ref(), sent);
            (tried, false)
        };
        let Some(tried) = tried else {
            self.answers.on_timeout(Instant::now().saturating_duration_since(sent));
            return Err(self.timeout_error());
        };
        match tried? {
            Tried::Granted(guard) => return Ok(Asked::Granted(guard)),
            Tried::Busy(_) => observed.was_answered |= !self.answers.was_late,
            Tried::Late => {
                // Before and after it, the holder can be another late grant to this caller.
                observed.was_answered = false;
                // The old id is being released.
                observed.set_lock_id(LockId::generate()?);
                self.answers.was_late = true;
                self.on_contended(Contention::default(), Instant::now());
            }
        }
        Ok(if may_be_free { Asked::MayBeFree } else { Asked::Busy })
    }

    /// The store has answered an attempt of this time, or has not.
    fn on_answer(&mut self, answer: Option<&Result<Tried<B>, LockError>>, sent: Instant) {
        if let Some(Ok(Tried::Busy(contention))) = answer {
            let now = Instant::now();
            self.answers.on_locked(now.saturating_duration_since(sent));
            self.answers.set_free_at(*contention, now);
            self.on_contended(*contention, now);
        }
    }

    fn on_contended(&mut self, contention: Contention, now: Instant) {
        self.holder = HeldBy::Rival { polls: Some(contention.is_polled) };
        self.ticket.on_contended(now, contention.is_polled);
        let free_at = contention.free_within.map(|time| now + time + TIME_STEP);
        self.false_signals.on_locked(free_at, self.woken == Woken::Signal);
        // If the attempt at the expiry has found the lock held, the next expiry is no reason to ask.
        self.free_at = free_at.filter(|_| self.woken != Woken::Expiry);
    }

    /// Waits until there is a reason to ask the store.
    async fn wait(&mut self) -> Result<(), LockError> {
        loop {
            if self.wants_watch() && self.holder != HeldBy::Local && self.watch().await? {
                // A release before the watch began gave no signal. Most likely the lock is still held.
                self.woken = Woken::Poll;
                break;
            }
            self.woken = Box::pin(self.sleep()).await?;
            if self.woken == Woken::Signal
                && let Some(pause) = self.false_signals.pause()
            {
                let until = self.deadline.min(rt::after(pause));
                sleep_unless_cancelled(self.token(), until).await?;
            }
            match self.woken {
                Woken::Expiry => break,
                Woken::Poll => {
                    self.has_signals = true;
                    let is_told = self.is_told();
                    let old = self.ticket.watch.take_if(|watch| watch.is_old());
                    // A new watch begins with a look at the key.
                    if old.is_some() && is_told {
                        continue;
                    }
                    break;
                }
                Woken::Queue | Woken::Signal => {}
            }
            // A head that was passed over because its future was not polled waits in the queue again.
            let turn = self.call.wait_to_be_head(&mut self.ticket, self.deadline).await?;
            if let Turn::Held(until) = turn {
                self.set_local_holder(until);
                continue;
            }
            self.holder = HeldBy::Unknown;
            if self.woken == Woken::Signal && self.ticket.has_lost() {
                self.hold_back().await?;
            }
            break;
        }
        Ok(())
    }

    /// A guard of this process has the lock until this time, unless the guard extends it.
    fn set_local_holder(&mut self, until: Instant) {
        (self.free_at, self.holder) = (Some(until + TIME_STEP), HeldBy::Local);
    }

    /// Sleeps until the head has something to do.
    async fn sleep(&mut self) -> Result<Woken, LockError> {
        let now = Instant::now();
        let left = self.deadline.saturating_duration_since(now);
        let Some(pause) = self.pauses.next(left) else { return Err(self.timeout_error()) };
        let is_told = self.is_told();
        let pause = if is_told { self.quiet(pause, left) } else { pause };
        let mut wake_at = now + pause;
        match self.holder {
            HeldBy::Rival { polls: Some(true) } => {
                wake_at = wake_at.min(rt::after(self.pauses.first_pause()));
            }
            // The head does not know when the lock expires.
            HeldBy::Rival { polls: None } => wake_at = wake_at.min(now + CHECK_INTERVAL),
            _ => {}
        }
        let is_early = wake_at < now + pause;
        let free_at = self.free_at.filter(|at| *at <= wake_at);
        // Only the head asks the store. So the waiters behind must not wait for a head with long pauses.
        let mut with_queued = CHECK_INTERVAL;
        if !self.has_signals {
            with_queued = with_queued.min(self.pauses.first_pause());
        }
        let wake_at = free_at.unwrap_or(wake_at);
        let token = self.token();
        let (woken, wakes_at) = loop {
            let queued = rt::after(with_queued);
            let Some((notify, wakes_at)) = self.ticket.start_waiting(wake_at, queued) else {
                self.pauses.uncount();
                return Ok(Woken::Queue);
            };
            let watch = &mut self.ticket.watch;
            let woken = async {
                let signal = async {
                    match watch {
                        Some(watch) => watch.changed().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = notify.notified() => Woken::Queue,
                    () = signal => Woken::Signal,
                    () = sleep_until(wakes_at) => {
                        if free_at == Some(wakes_at) { Woken::Expiry } else { Woken::Poll }
                    }
                }
            };
            let woken = unless_cancelled(token, woken).await?;
            // The waiters behind have seen that this head is polled. The store has nothing to say yet.
            if woken != Woken::Poll || !is_told || wakes_at >= wake_at {
                break (woken, wakes_at);
            }
        };
        if woken == Woken::Poll && self.deadline <= wakes_at {
            return Err(self.timeout_error());
        }
        // A pause before the first attempt is not a retry.
        if woken != Woken::Poll || is_early || wakes_at < wake_at || self.answers.attempts == 0 {
            self.pauses.uncount();
        }
        Ok(woken)
    }

    /// How long a head that is told of the release sleeps. Its last poll comes one pause before the limit, and then only a
    /// signal has it ask.
    fn quiet(&self, pause: Duration, left: Duration) -> Duration {
        let quiet = pause.max(QUIET);
        if quiet < left {
            return quiet;
        }
        let last = self.pauses.first_pause();
        let pause = left.saturating_sub(last);
        if pause > last { pause } else { left }
    }

    /// Whether a signal will tell of the release, and the expiry of the lock is known. Polls that are counted go on.
    fn is_told(&self) -> bool {
        self.holder == HeldBy::Rival { polls: Some(false) }
            && self.free_at.is_some()
            && self.ticket.watch.as_ref().is_some_and(|watch| !watch.is_over())
            && self.pauses.options.max_retries == u32::MAX
    }

    fn token(&self) -> Option<&'a CancellationToken> {
        self.call.policy.cancellation.as_ref()
    }

    fn timeout_error(&self) -> LockError {
        self.call.timeout_error(&self.pauses, &self.answers)
    }
}

/// The answer to an attempt; `None` if the time limit has cut it off.
type Answer<B> = Option<Result<Tried<B>, LockError>>;
