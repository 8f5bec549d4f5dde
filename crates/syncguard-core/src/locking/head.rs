//! The head of a queue: the only waiter of the process that contends in the store.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::attempt::{Attempt, Tried};
use super::cancellable::{sleep_unless_cancelled, unless_cancelled};
use super::false_signals::FalseSignals;
use super::guard::LockGuard;
use super::observed::ObservedAcquisition;
use super::pauses::Pauses;
use super::wait::wait_to_be_head;
use crate::backend::LockBackend;
use crate::client::queue::{CHECK_INTERVAL, Ticket, Turn};
use crate::contract::key_watch::KeyWatch;
use crate::contract::request::{IsLockedRequest, WatchRequest};
use crate::contract::response::Contention;
use crate::rt::{self, Instant, sleep_until};
use crate::util::pause::random_part;
use crate::value::{LockError, LockId};

/// After a signal, which rivals get as well, a head that lost the last race waits for a random part of this. Then the
/// heads of four processes send some 4 commands for each hand-over; without it, they send more than 5. A pause between
/// two looks at the key begins with it, too.
const HOLD_BACK: Duration = Duration::from_millis(3);

/// Stores count whole milliseconds.
const STEP: Duration = Duration::from_millis(1);

/// The head of a queue.
pub(super) struct Head<'a, B> {
    attempt: &'a Attempt<'a, B>,
    deadline: Instant,
    pauses: Pauses<'a>,
    answers: Answers,
    ticket: Ticket,
    /// Whether the store gave signals at the last try.
    has_signals: bool,
    false_signals: FalseSignals,
    /// When the lock of the present holder expires, as the store or the queue reported last.
    free_at: Option<Instant>,
    holder: Holder,
    /// Why the head woke up last.
    woken: Woken,
}

/// The present holder, as far as the head knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
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
            has_signals: true,
            false_signals: FalseSignals::default(),
            free_at: None,
            holder: Holder::Unknown,
            woken: Woken::Queue,
        };
        // Made outside, so that the future holds it only once.
        async move {
            if has_queued || !matches!(turn, Turn::Ask) {
                // If no time is left for an own answer, the answers to earlier heads count.
                this.answers.last_is_contention = this.ticket.is_contended(Instant::now());
            }
            observed.on_head();
            if let Turn::Held(until) = turn {
                this.set_local_holder(until);
                Box::pin(this.wait()).await?;
            }
            loop {
                if !Box::pin(this.leave_free()).await? {
                    match this.ask(observed).await? {
                        Asked::Granted(guard) => return Ok(guard),
                        Asked::MayBeFree => continue,
                        Asked::Busy => {}
                    }
                }
                Box::pin(this.wait()).await?;
            }
        }
    }

    /// Leaves a key that was just released free for rivals, if it is time. Returns whether a rival has taken it.
    async fn leave_free(&mut self) -> Result<bool, LockError> {
        let is_released = matches!(self.woken, Woken::Queue | Woken::Signal);
        let began = Instant::now();
        let Some(pause) = self.ticket.pause(began).filter(|_| is_released) else {
            return Ok(false);
        };
        // The last part of the limit is left for the attempt. A later head makes the whole pause.
        let left = self.deadline.saturating_duration_since(began) / 2;
        let ends = began + pause.time.min(left);
        self.ticket.start_waiting(ends, ends);
        let mut until_look = HOLD_BACK;
        loop {
            let look = if pause.ends_early { rt::after(until_look) } else { ends };
            sleep_unless_cancelled(self.token(), ends.min(look)).await?;
            if ends <= look {
                break;
            }
            if self.is_locked(ends).await? {
                self.ticket.on_rival_seen(Instant::now(), false);
                (self.free_at, self.holder) = (None, Holder::Rival { polls: None });
                return Ok(true);
            }
            until_look *= 2;
        }
        if pause.time <= left {
            self.ticket.on_no_rival(pause);
        }
        self.ticket.on_attempt(Instant::now());
        Ok(false)
    }

    /// Whether the store answers before `until` that the key is locked.
    async fn is_locked(&self, until: Instant) -> Result<bool, LockError> {
        let request = IsLockedRequest { key: self.attempt.key().clone(), cancellation: None };
        let look = rt::until(until, self.attempt.backend().is_locked(request));
        // The next attempt reports the error of a failing store.
        Ok(unless_cancelled(self.token(), look)
            .await?
            .is_some_and(|answer| answer.unwrap_or(false)))
    }

    /// One attempt in the store.
    async fn ask(&mut self, observed: &mut ObservedAcquisition<'_>) -> Result<Asked<B>, LockError> {
        let lock_id = observed.next_attempt();
        self.answers.attempts = observed.attempts();
        if let Some(watch) = &mut self.ticket.watch {
            // This attempt answers all earlier signals.
            watch.forget();
        }
        let sent = Instant::now();
        let (tried, may_be_free) = if self.ticket.has_lost() && self.wants_watch() {
            Box::pin(self.try_and_watch(lock_id, sent)).await?
        } else {
            // A dropped attempt cleans up after itself: see `LockBackend::acquire`.
            let once = self.attempt.once(lock_id, sent, Some(&mut self.ticket));
            let tried = rt::until(self.deadline, once).await;
            self.on_answer(&tried, sent);
            (tried, false)
        };
        let Some(tried) = tried else {
            self.answers.on_timeout(Instant::now().saturating_duration_since(sent));
            return Err(self.timeout_error());
        };
        match tried? {
            Tried::Granted(guard) => return Ok(Asked::Granted(guard)),
            Tried::Busy(_) => {}
            Tried::Late => {
                // The old id is being released.
                observed.set_lock_id(LockId::generate()?);
                self.answers.was_late = true;
                self.on_contended(Contention::unknown(), Instant::now());
            }
        }
        Ok(if may_be_free { Asked::MayBeFree } else { Asked::Busy })
    }

    /// One attempt, and a watch beside it, because a rival is likely to win. For a process that is far from the store, a
    /// watch that begins after the answer comes too late. Also returns whether the lock may be free by now.
    async fn try_and_watch(
        &mut self,
        lock_id: LockId,
        sent: Instant,
    ) -> Result<(Answer<B>, bool), LockError> {
        let (attempt, limit, token) = (self.attempt, self.watch_limit(), self.token());
        let mut open = pin!(open_watch(attempt, limit));
        let mut opened = None;
        let tried = {
            let mut once =
                pin!(rt::until(self.deadline, attempt.once(lock_id, sent, Some(&mut self.ticket))));
            loop {
                tokio::select! {
                    biased;
                    tried = &mut once => break tried,
                    watch = &mut open, if opened.is_none() => opened = Some(watch),
                }
            }
        };
        self.on_answer(&tried, sent);
        if !matches!(tried, Some(Ok(Tried::Busy(_)))) {
            return Ok((tried, false));
        }
        let watch = match opened {
            Some(watch) => watch,
            None => unless_cancelled(token, open).await?,
        };
        let may_be_free = self.set_watch(watch);
        Ok((tried, may_be_free))
    }

    /// The store has answered an attempt of this time, or has not.
    fn on_answer(&mut self, answer: &Answer<B>, sent: Instant) {
        if let Some(Ok(Tried::Busy(contention))) = answer {
            let now = Instant::now();
            self.answers.on_locked(now.saturating_duration_since(sent));
            self.answers.set_free_at(*contention, now);
            self.on_contended(*contention, now);
        }
    }

    fn on_contended(&mut self, contention: Contention, now: Instant) {
        self.holder = Holder::Rival { polls: Some(contention.is_polled) };
        self.ticket.on_contended(now, contention.is_polled);
        let free_at = contention.free_within.map(|time| now + time + STEP);
        self.false_signals.on_locked(free_at, self.woken == Woken::Signal);
        // If the attempt at the expiry has found the lock held, the next expiry is no reason to ask.
        self.free_at = free_at.filter(|_| self.woken != Woken::Expiry);
    }

    /// Waits until there is a reason to ask the store.
    async fn wait(&mut self) -> Result<(), LockError> {
        loop {
            if self.holder != Holder::Local && self.wants_watch() {
                let open = open_watch(self.attempt, self.watch_limit());
                let watch = unless_cancelled(self.token(), open).await?;
                if self.set_watch(watch) {
                    // A release before the watch began gave no signal.
                    self.woken = Woken::Signal;
                    break;
                }
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
                    self.ticket.watch.take_if(|watch| watch.is_old());
                    break;
                }
                Woken::Queue | Woken::Signal => {}
            }
            if let Some(until) = self.take_turn().await? {
                self.set_local_holder(until);
                continue;
            }
            self.holder = Holder::Unknown;
            if self.woken == Woken::Signal && self.ticket.has_lost() {
                self.hold_back().await?;
            }
            break;
        }
        self.ticket.on_attempt(Instant::now());
        Ok(())
    }

    /// Waits for a moment after a signal, which rivals get as well. A head with little time left goes first.
    async fn hold_back(&self) -> Result<(), LockError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < self.attempt.policy().acquisition.timeout / 4 {
            return Ok(());
        }
        sleep_unless_cancelled(self.token(), rt::after(random_part(HOLD_BACK))).await
    }

    /// A guard of this process has the lock until this time, unless the guard extends it.
    fn set_local_holder(&mut self, until: Instant) {
        (self.free_at, self.holder) = (Some(until + STEP), Holder::Local);
    }

    /// Returns until when a guard of this process has the lock; `None` if the head asks the store. A head
    /// that was passed over because its future was not polled waits in the queue again.
    async fn take_turn(&mut self) -> Result<Option<Instant>, LockError> {
        let turn = self.ticket.turn(Instant::now());
        let turn = wait_to_be_head(self.attempt, &mut self.ticket, turn, self.deadline).await?;
        let Turn::Held(until) = turn else { return Ok(None) };
        Ok(Some(until))
    }

    fn wants_watch(&self) -> bool {
        self.has_signals && self.ticket.watch.is_none()
    }

    /// Keeps a watch that was just opened, or knows that the store has no signals at the moment. Returns whether the
    /// lock may be free.
    fn set_watch(&mut self, watch: Option<KeyWatch>) -> bool {
        self.has_signals = watch.is_some();
        self.ticket.watch = watch;
        let Some(watch) = &self.ticket.watch else { return false };
        if watch.is_locked() {
            self.holder = Holder::Rival { polls: Some(watch.is_polled()) };
        }
        // A watch that is over gives its last signal to the sleeping head.
        !watch.is_locked() && !watch.is_over()
    }

    /// When to give up opening a watch: a connection that is being opened must not delay polls.
    fn watch_limit(&self) -> Instant {
        const SHORTEST: Duration = Duration::from_millis(200);
        let retry_delay = self.attempt.policy().acquisition.retry_delay;
        self.deadline.min(rt::after(SHORTEST.max(retry_delay)))
    }

    /// Sleeps until the head has something to do.
    async fn sleep(&mut self) -> Result<Woken, LockError> {
        let now = Instant::now();
        let Some(pause) = self.pauses.next(self.deadline.saturating_duration_since(now)) else {
            return Err(self.timeout_error());
        };
        let mut wake_at = now + pause;
        match self.holder {
            Holder::Rival { polls: Some(true) } => {
                wake_at = wake_at.min(rt::after(self.pauses.first_pause()));
            }
            // The head does not know when the lock expires.
            Holder::Rival { polls: None } => wake_at = wake_at.min(now + CHECK_INTERVAL),
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
        let Some((notify, wakes_at)) = self.ticket.start_waiting(wake_at, now + with_queued) else {
            self.pauses.uncount();
            return Ok(Woken::Queue);
        };
        let token = self.token();
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
        self.ticket.watch.take_if(|watch| watch.is_over());
        // A pause before the first attempt is not a retry.
        if woken != Woken::Poll || is_early || wakes_at < wake_at || self.answers.attempts == 0 {
            self.pauses.uncount();
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

/// The answer to an attempt; `None` if the time limit has cut it off.
type Answer<B> = Option<Result<Tried<B>, LockError>>;

/// Opens a watch, and gives up at `limit`.
async fn open_watch<B: LockBackend>(attempt: &Attempt<'_, B>, limit: Instant) -> Option<KeyWatch> {
    let watch = attempt.backend().watch(WatchRequest::new(attempt.key().clone()));
    rt::until(limit, watch).await.flatten()
}
