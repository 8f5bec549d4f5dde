//! The head of a queue: the only waiter of the process that contends in the store.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::attempt::{Attempt, Tried};
use super::cancellable::{sleep_unless_cancelled, unless_cancelled};
use super::guard::LockGuard;
use super::observed::ObservedAcquisition;
use super::pauses::Pauses;
use super::wait::wait_to_be_head;
use super::watching::{FalseSignals, WatchStart, Watching};
use crate::backend::LockBackend;
use crate::client::queue::{CHECK_INTERVAL, HoldBack, StepBack, Ticket, Turn};
use crate::contract::request::IsLockedRequest;
use crate::contract::response::Contention;
use crate::rt::{self, Instant, sleep_until};
use crate::util::pause::random_part;
use crate::value::{LockError, LockId};

/// The head of a queue.
pub(super) struct Head<'a, B> {
    attempt: &'a Attempt<'a, B>,
    deadline: Instant,
    pauses: Pauses<'a>,
    answers: Answers,
    ticket: Ticket,
    watching: Watching,
    false_signals: FalseSignals,
    /// When the lock of the present holder expires, as the store or the queue reported last.
    free_at: Option<Instant>,
    /// Why the head woke up last.
    woken: Woken,
    /// When the next poll is due, if its pause was cut short to open a watch.
    poll_at: Option<Instant>,
    holder: Holder,
    /// The outcome of a watch that was opened beside an attempt.
    watch_start: Option<WatchStart>,
}

/// The present holder, as far as the head knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Unknown,
    /// A guard of this process: its release wakes the head, so the head needs no watch.
    Local,
    /// A rival, as the answer to an attempt or a watch shows. A rival that polls may release without a signal.
    Rival {
        polls: bool,
    },
    /// A rival that was seen without an attempt, so that the head does not know when its lock expires.
    SeenRival {
        polls: bool,
    },
}

impl Holder {
    fn polls(self) -> bool {
        matches!(self, Self::Rival { polls: true } | Self::SeenRival { polls: true })
    }
}

/// Why the head asks the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The waiter has become the head, or the lock was released.
    Release,
    /// The holder's lock has expired, or a poll is due.
    Time,
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
    /// The store had no signals, and the head tries to open a watch again.
    RetryWatch,
}

impl<'a, B: LockBackend> Head<'a, B> {
    /// Contends until the lock is granted, or a limit is reached. `has_queued` says that this waiter stood
    /// behind other waiters before.
    pub(super) fn run(
        attempt: &'a Attempt<'a, B>,
        observed: &'a mut ObservedAcquisition<'_>,
        ticket: Ticket,
        turn: Turn,
        has_queued: bool,
        deadline: Instant,
    ) -> impl Future<Output = Result<LockGuard<B>, LockError>> + Send {
        let mut this = Self {
            attempt,
            deadline,
            pauses: Pauses::new(&attempt.policy().acquisition),
            answers: Answers::default(),
            ticket,
            watching: Watching::default(),
            false_signals: FalseSignals::default(),
            free_at: None,
            woken: Woken::Queue,
            poll_at: None,
            holder: Holder::Unknown,
            watch_start: None,
        };
        // Made outside, so that the future holds it only once.
        async move {
            if has_queued || !matches!(turn, Turn::Ask) {
                // If no time is left for an own answer, the answers to earlier heads count.
                this.answers.last_is_contention = this.ticket.is_contended(Instant::now());
            }
            observed.on_head();
            let mut reason = this.begin(turn).await?;
            loop {
                if reason == Reason::Release
                    && let Some(step_back) = this.ticket.step_back(Instant::now())
                    && Box::pin(this.yield_to_rivals(step_back)).await?
                {
                    reason = Box::pin(this.reason_to_ask()).await?;
                    continue;
                }
                if let Some(guard) = this.ask(observed).await? {
                    return Ok(guard);
                }
                reason = Box::pin(this.reason_to_ask()).await?;
            }
        }
    }

    /// Waits for the first reason to ask.
    async fn begin(&mut self, turn: Turn) -> Result<Reason, LockError> {
        match turn {
            Turn::Ask => return Ok(Reason::Release),
            Turn::Held(until) => self.set_local_holder(until),
            // `wait_to_be_head` returns no such turn.
            Turn::Wait { .. } => {}
        }
        Box::pin(self.reason_to_ask()).await
    }

    /// Leaves the key free for rivals. Returns whether a rival has taken it.
    async fn yield_to_rivals(&mut self, step_back: StepBack) -> Result<bool, LockError> {
        let StepBack { pause, first_check, is_overdue } = step_back;
        let mut wait = first_check;
        let began = Instant::now();
        let left = self.deadline.saturating_duration_since(began);
        // With hardly any time left, this head leaves the pause to a later head, unless the pause is overdue.
        if left < pause * 2 && !is_overdue {
            return Ok(false);
        }
        let ends = began + pause.min(left / 2);
        self.ticket.start_waiting(ends, ends);
        loop {
            let check_at = ends.min(Instant::now() + wait);
            sleep_unless_cancelled(self.token(), check_at).await?;
            if check_at == ends {
                break;
            }
            if self.ticket.ever_saw_rival() && self.watching.is_wanted(self.ticket.watch.as_ref()) {
                // If a rival has the key, the watch also brings the signal of its release.
                let start = rt::until(ends, self.open_watch()).await.transpose()?;
                if start == Some(WatchStart::Held) {
                    self.saw_rival(Some(self.holder.polls()));
                    return Ok(true);
                }
            } else if self.is_locked(ends).await? {
                self.saw_rival(None);
                return Ok(true);
            }
            wait *= 2;
        }
        self.ticket.on_no_rival();
        self.ticket.on_attempt(Instant::now());
        Ok(false)
    }

    /// Whether the store answers before `until` that the key is locked.
    async fn is_locked(&self, until: Instant) -> Result<bool, LockError> {
        let request = IsLockedRequest { key: self.attempt.key().clone(), cancellation: None };
        let check = rt::until(until, self.attempt.backend().is_locked(request));
        // The next attempt reports the error of a failing store.
        Ok(unless_cancelled(self.token(), check)
            .await?
            .is_some_and(|answer| answer.unwrap_or(false)))
    }

    /// One attempt in the store; `None` if the lock was not granted.
    async fn ask(
        &mut self,
        observed: &mut ObservedAcquisition<'_>,
    ) -> Result<Option<LockGuard<B>>, LockError> {
        let lock_id = observed.next_attempt();
        self.answers.attempts = observed.attempts();
        if let Some(watch) = &mut self.ticket.watch {
            // This attempt answers all earlier signals.
            watch.forget();
        }
        let sent = Instant::now();
        let (tried, watch_start) = if self.watches_while_asking() {
            Box::pin(self.ask_and_watch(lock_id, sent)).await?
        } else {
            // A dropped attempt cleans up after itself: see `LockBackend::acquire`.
            let once = self.attempt.once(lock_id, sent, Some(&mut self.ticket));
            let tried = rt::until(self.deadline, once).await;
            if let Some(Ok(Tried::Busy(contention))) = &tried {
                self.on_locked(*contention, sent);
            }
            (tried, None)
        };
        self.watch_start = watch_start;
        match tried {
            None => {
                self.answers.on_timeout(Instant::now().saturating_duration_since(sent));
                Err(self.timeout_error())
            }
            Some(tried) => match tried? {
                Tried::Granted(guard) => Ok(Some(guard)),
                Tried::Busy(_) => Ok(None),
                Tried::Late => {
                    // The old id is being released.
                    observed.set_lock_id(LockId::generate()?);
                    self.answers.was_late = true;
                    self.on_contended(Contention::unknown(), Instant::now());
                    Ok(None)
                }
            },
        }
    }

    /// Whether to open a watch together with the attempt, because a rival is likely to win. For a process
    /// that is far from the store, a watch that begins after the answer comes too late.
    fn watches_while_asking(&self) -> bool {
        const FAR: Duration = Duration::from_millis(1);
        let is_far = self.answers.longest_answer >= FAR;
        is_far && self.ticket.lost_to_rival() && self.watching.is_wanted(self.ticket.watch.as_ref())
    }

    /// Asks the store and opens a watch meanwhile, which stays if the lock is held.
    async fn ask_and_watch(
        &mut self,
        lock_id: LockId,
        sent: Instant,
    ) -> Result<(Option<Result<Tried<B>, LockError>>, Option<WatchStart>), LockError> {
        let (limit, token) = (self.watch_deadline(), self.token());
        let (backend, key) = (self.attempt.backend(), self.attempt.key());
        let mut watching = std::mem::take(&mut self.watching);
        let (tried, began) = {
            let mut watch = pin!(watching.open(backend, key, limit));
            let (tried, mut began) = {
                let once = self.attempt.once(lock_id, sent, Some(&mut self.ticket));
                let mut once = pin!(rt::until(self.deadline, once));
                tokio::select! {
                    biased;
                    tried = &mut once => (tried, None),
                    began = &mut watch => (once.await, Some(began)),
                }
            };
            if let Some(Ok(Tried::Busy(contention))) = &tried {
                self.on_locked(*contention, sent);
                if began.is_none() {
                    began = Some(unless_cancelled(token, watch).await?);
                }
            }
            (tried, began)
        };
        self.watching = watching;
        let start = began.map(|(start, watch)| {
            self.ticket.watch = watch;
            start
        });
        Ok((tried, start))
    }

    /// The store has just answered a request of this time that a rival has the lock.
    fn on_locked(&mut self, contention: Contention, sent: Instant) {
        let now = Instant::now();
        self.answers.on_locked(now.saturating_duration_since(sent));
        self.answers.set_free_at(contention, now);
        self.on_contended(contention, now);
    }

    fn on_contended(&mut self, contention: Contention, now: Instant) {
        self.holder = Holder::Rival { polls: contention.is_polled };
        self.ticket.on_contended(now, contention.is_polled);
        let free_at = contention.free_within.map(|time| now + time + Duration::from_millis(1));
        self.false_signals.on_locked(free_at, self.woken == Woken::Signal);
        // If the attempt at the expiry has found the lock held, the next expiry is no reason to ask.
        self.free_at = free_at.filter(|_| self.woken != Woken::Expiry);
    }

    /// Waits until there is a reason to ask the store.
    async fn reason_to_ask(&mut self) -> Result<Reason, LockError> {
        let reason = self.next_reason().await?;
        self.ticket.on_attempt(Instant::now());
        Ok(reason)
    }

    async fn next_reason(&mut self) -> Result<Reason, LockError> {
        loop {
            // Releases before the watch began were missed, so ask.
            if let Some(WatchStart::MayBeFree) = self.watch_if_needed().await? {
                return Ok(Reason::Release);
            }
            self.woken = Box::pin(self.sleep()).await?;
            match self.woken {
                Woken::Queue => match self.take_turn().await? {
                    Some(until) => self.set_local_holder(until),
                    None => return Ok(Reason::Release),
                },
                Woken::Signal => {
                    if let Some(pause) = self.false_signals.pause() {
                        let until = self.deadline.min(rt::after(pause));
                        sleep_unless_cancelled(self.token(), until).await?;
                    }
                    if let Some(until) = self.take_turn().await? {
                        self.set_local_holder(until);
                        continue;
                    }
                    self.holder = Holder::Unknown;
                    self.ticket.on_rival_released(Instant::now());
                    if !self.hold_back().await? {
                        return Ok(Reason::Release);
                    }
                }
                Woken::Expiry => return Ok(Reason::Time),
                Woken::Poll => {
                    self.watching.allow_retry();
                    self.ticket.watch.take_if(|watch| watch.is_old());
                    return Ok(Reason::Time);
                }
                Woken::RetryWatch => self.watching.allow_retry(),
            }
        }
    }

    /// Opens a watch if one is needed. Returns the outcome of this watch, or of one that was opened beside
    /// the last attempt.
    async fn watch_if_needed(&mut self) -> Result<Option<WatchStart>, LockError> {
        if let Some(start) = self.watch_start.take() {
            return Ok(Some(start));
        }
        if self.holder == Holder::Local || !self.watching.is_wanted(self.ticket.watch.as_ref()) {
            return Ok(None);
        }
        self.open_watch().await.map(Some)
    }

    /// A guard of this process has the lock until this time, unless the guard extends it.
    fn set_local_holder(&mut self, until: Instant) {
        (self.free_at, self.holder) = (Some(until), Holder::Local);
    }

    /// Returns until when a guard of this process has the lock; `None` if the head asks the store. A head
    /// that was passed over because its future was not polled waits in the queue again.
    async fn take_turn(&mut self) -> Result<Option<Instant>, LockError> {
        let turn = self.ticket.turn(Instant::now());
        let turn = wait_to_be_head(self.attempt, &mut self.ticket, turn, self.deadline).await?;
        let Turn::Held(until) = turn else { return Ok(None) };
        Ok(Some(until))
    }

    /// Holds back after a signal, which rivals get as well. Returns whether a rival was faster.
    async fn hold_back(&mut self) -> Result<bool, LockError> {
        let Some(HoldBack { pause, checks_first }) = self.ticket.hold_back() else {
            return Ok(false);
        };
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < pause.end * 10 {
            return Ok(false);
        }
        let pause = pause.start + random_part(pause.end.saturating_sub(pause.start));
        sleep_unless_cancelled(self.token(), rt::after(pause)).await?;
        // While the watch goes on, the head asks without a check.
        if !checks_first || !self.watching.is_wanted(self.ticket.watch.as_ref()) {
            return Ok(false);
        }
        let is_held = matches!(self.open_watch().await?, WatchStart::Held);
        if is_held {
            self.saw_rival(Some(self.holder.polls()));
        }
        Ok(is_held)
    }

    /// A rival was seen with the lock. `polls` says whether the rival polls, if that is known.
    fn saw_rival(&mut self, polls: Option<bool>) {
        self.ticket.on_rival_seen(Instant::now(), polls.unwrap_or(false));
        self.free_at = None;
        self.holder = Holder::SeenRival { polls: polls.unwrap_or(true) };
    }

    /// Opens a watch.
    async fn open_watch(&mut self) -> Result<WatchStart, LockError> {
        let (limit, token) = (self.watch_deadline(), self.token());
        let watch = self.watching.open(self.attempt.backend(), self.attempt.key(), limit);
        let (start, watch) = unless_cancelled(token, watch).await?;
        if let Some(watch) = &watch
            && start == WatchStart::Held
        {
            self.holder = Holder::Rival { polls: watch.is_polled() };
        }
        self.ticket.watch = watch;
        Ok(start)
    }

    /// When to give up opening a watch: a connection that is being opened must not delay polls.
    fn watch_deadline(&self) -> Instant {
        let retry_delay = self.attempt.policy().acquisition.retry_delay;
        self.deadline.min(rt::after(Watching::MIN_LIMIT.max(retry_delay)))
    }

    /// Sleeps until the head has something to do.
    async fn sleep(&mut self) -> Result<Woken, LockError> {
        let now = Instant::now();
        let watch_at = self.watching.retry_at(now);
        let without_signals = watch_at.is_some();
        if self.holder == Holder::Local || without_signals {
            // No watch is opened now, and a finished watch would wake the head again and again.
            self.ticket.watch.take_if(|watch| watch.is_over());
        }
        let Some(pause) = self.pauses.next(self.deadline.saturating_duration_since(now)) else {
            return Err(self.timeout_error());
        };
        let poll_at = self.poll_at.take().unwrap_or(now + pause);
        let watch_at = watch_at.filter(|at| *at < poll_at);
        let free_at = self.free_at;
        let mut wake_at = [watch_at, free_at].into_iter().flatten().fold(poll_at, Instant::min);
        if self.holder.polls() {
            // This holder may release without a signal.
            wake_at = wake_at.min(rt::after(self.pauses.first_pause()));
        }
        if matches!(self.holder, Holder::SeenRival { .. }) {
            wake_at = wake_at.min(now + CHECK_INTERVAL);
        }
        // Only the head asks the store. So the waiters behind must not wait for a head with long pauses.
        let mut with_queued = CHECK_INTERVAL;
        if without_signals {
            with_queued = with_queued.min(self.pauses.first_pause());
        }
        let Some((notify, wake_at)) = self.ticket.start_waiting(wake_at, now + with_queued) else {
            self.pauses.uncount();
            return Ok(Woken::Queue);
        };
        let token = self.token();
        let watch = &mut self.ticket.watch;
        let signal = async {
            match watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        let woken = async {
            tokio::select! {
                biased;
                () = notify.notified() => Woken::Queue,
                () = signal => Woken::Signal,
                () = sleep_until(wake_at) => {
                    if free_at == Some(wake_at) {
                        Woken::Expiry
                    } else if watch_at == Some(wake_at) {
                        Woken::RetryWatch
                    } else {
                        Woken::Poll
                    }
                }
            }
        };
        let woken = unless_cancelled(token, woken).await?;
        // A pause before the first attempt is not a retry.
        if woken != Woken::Poll || wake_at < poll_at || self.answers.attempts == 0 {
            self.pauses.uncount();
        }
        if woken == Woken::RetryWatch {
            self.poll_at = Some(poll_at);
        }
        Ok(woken)
    }

    fn token(&self) -> Option<&'a CancellationToken> {
        self.attempt.policy().cancellation.as_ref()
    }

    fn timeout_error(&self) -> LockError {
        self.attempt.timeout_error(&self.pauses, &self.answers)
    }
}
