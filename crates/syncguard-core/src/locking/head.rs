//! The head of a queue: the only waiter of the process that contends in the store.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Tried};
use super::cancellable::{sleep_unless_cancelled, unless_cancelled};
use super::listening::{Heard, Listening};
use super::observed::Waiting;
use super::queue::{HoldBack, LOOK_AGAIN, StepBack, Ticket, Turn};
use super::retry::{Answers, Pauses};
use super::wait::wait_to_be_head;
use crate::authoring::pause::random_part;
use crate::contract::IsLockedRequest;
use crate::rt::{self, Instant, sleep_until};
use crate::{Contention, LockBackend, LockError, LockGuard, LockId};

/// The head of a queue.
pub(super) struct Head<'a, B> {
    attempt: &'a Attempt<'a, B>,
    deadline: Instant,
    pauses: Pauses<'a>,
    answers: Answers,
    ticket: Ticket,
    listening: Listening,
    /// When the lock of the present holder expires, as the store or the queue reported last.
    free_at: Option<Instant>,
    /// Whether the last attempt was made because the holder's lock had expired.
    was_expiry: bool,
    /// When the next poll is due, if its pause was cut short to open a watch.
    poll_at: Option<Instant>,
    holder: Holder,
    /// The outcome of a watch that was opened beside an attempt.
    heard: Option<Heard>,
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
    Bell,
    /// The store signals that the lock may be free.
    Signal,
    /// The holder's lock has expired.
    Expiry,
    /// A poll is due.
    Poll,
    /// The store had no signals, and the head tries to open a watch again.
    Listen,
}

impl<'a, B: LockBackend> Head<'a, B> {
    /// Contends until the lock is granted, or a limit is reached. `has_queued` says that this waiter stood
    /// behind other waiters before.
    pub(super) fn run(
        attempt: &'a Attempt<'a, B>,
        waiting: &'a mut Waiting<'_>,
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
            listening: Listening::default(),
            free_at: None,
            was_expiry: false,
            poll_at: None,
            holder: Holder::Unknown,
            heard: None,
        };
        // Made outside, so that the future holds it only once.
        async move {
            if has_queued || !matches!(turn, Turn::Ask) {
                // If no time is left for an own answer, the answers to earlier heads count.
                this.answers.last_is_contention = this.ticket.is_contended(Instant::now());
            }
            waiting.is_first();
            let mut reason = this.begin(turn).await?;
            loop {
                if reason == Reason::Release
                    && let Some(step_back) = this.ticket.step_back(Instant::now())
                    && Box::pin(this.leaves_the_key(step_back)).await?
                {
                    reason = Box::pin(this.reason_to_ask()).await?;
                    continue;
                }
                let contention = match this.ask(waiting).await? {
                    Tried::Granted(guard) => return Ok(guard),
                    Tried::Locked(contention) => contention,
                    Tried::Late => {
                        // The old id is being released.
                        waiting.go_on_with(LockId::generate()?);
                        Contention::unknown()
                    }
                };
                this.refused(contention);
                reason = Box::pin(this.reason_to_ask()).await?;
            }
        }
    }

    /// Waits for the first reason to ask.
    async fn begin(&mut self, turn: Turn) -> Result<Reason, LockError> {
        match turn {
            Turn::Ask => Ok(Reason::Release),
            Turn::Held(until) => {
                self.held_here(until);
                Box::pin(self.reason_to_ask()).await
            }
            // `wait_to_be_head` returns no such turn.
            Turn::Wait { .. } => Box::pin(self.reason_to_ask()).await,
        }
    }

    /// Leaves the key free for rivals. Returns whether a rival has taken it.
    async fn leaves_the_key(&mut self, step_back: StepBack) -> Result<bool, LockError> {
        let StepBack { pause, mut first_look, is_overdue } = step_back;
        let began = Instant::now();
        let left = self.deadline.saturating_duration_since(began);
        // With hardly any time left, this head leaves the pause to a later head, unless it is overdue.
        if left < pause * 2 && !is_overdue {
            return Ok(false);
        }
        let ends = began + pause.min(left / 2);
        self.ticket.waits(ends);
        loop {
            let look = ends.min(Instant::now() + first_look);
            sleep_unless_cancelled(self.token(), look).await?;
            if look == ends {
                break;
            }
            if self.ticket.knows_rivals() && self.listening.is_wanted(self.ticket.watch.as_ref()) {
                // The watch also serves to hear the rival's release.
                let heard = rt::until(ends, self.listen()).await.transpose()?;
                if heard == Some(Heard::Held) {
                    self.saw_rival(Some(self.holder.polls()));
                    return Ok(true);
                }
            } else if self.is_locked(ends).await? {
                self.saw_rival(None);
                return Ok(true);
            }
            first_look *= 2;
        }
        self.ticket.nobody_came();
        self.ticket.asks(Instant::now());
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
    async fn ask(&mut self, waiting: &mut Waiting<'_>) -> Result<Tried<B>, LockError> {
        let lock_id = waiting.attempt();
        self.answers.attempts = waiting.attempts();
        if let Some(watch) = &mut self.ticket.watch {
            // This attempt answers all earlier signals.
            watch.forget();
        }
        let sent = Instant::now();
        let tried = if self.listens_beside() {
            Box::pin(self.ask_and_listen(lock_id, sent)).await?
        } else {
            // A dropped attempt cleans up after itself: see `LockBackend::acquire`.
            let once = self.attempt.once(lock_id, sent, Some(&mut self.ticket));
            rt::until(self.deadline, once).await
        };
        let took = || Instant::now().saturating_duration_since(sent);
        match &tried {
            None => {
                self.answers.missing(took());
                return Err(self.gave_up());
            }
            Some(Ok(Tried::Locked(contention))) => {
                self.answers.locked(took());
                self.answers.holder_has(*contention, Instant::now());
            }
            Some(Ok(Tried::Late)) => self.answers.was_late = true,
            Some(_) => {}
        }
        tried.unwrap_or_else(|| Err(self.gave_up()))
    }

    /// Whether to open a watch together with the attempt, because a rival is likely to win. For a process
    /// that is far from the store, a watch that begins after the answer comes too late.
    fn listens_beside(&self) -> bool {
        const FAR: Duration = Duration::from_millis(1);
        let is_far = self.answers.longest >= FAR;
        is_far && self.ticket.has_rivals() && self.listening.is_wanted(self.ticket.watch.as_ref())
    }

    async fn ask_and_listen(
        &mut self,
        lock_id: LockId,
        sent: Instant,
    ) -> Result<Option<Result<Tried<B>, LockError>>, LockError> {
        let (limit, token) = (self.limit_of_watch(), self.token());
        let (backend, key) = (self.attempt.backend(), self.attempt.key());
        let once = self.attempt.once(lock_id, sent, Some(&mut self.ticket));
        let once = rt::until(self.deadline, once);
        let (tried, began) = {
            let (mut once, mut watch) =
                (pin!(once), pin!(self.listening.watch(backend, key, limit)));
            tokio::select! {
                biased;
                tried = &mut once => {
                    let is_refused = matches!(tried, Some(Ok(Tried::Locked(_))));
                    let began = if is_refused { Some(unless_cancelled(token, watch).await?) } else { None };
                    (tried, began)
                }
                began = &mut watch => (once.await, Some(began)),
            }
        };
        if let Some((heard, watch)) = began {
            self.ticket.watch = watch;
            self.ticket.hears(self.listening.has_signals());
            self.heard = Some(heard);
        }
        Ok(tried)
    }

    /// The store has answered that a rival has the lock.
    fn refused(&mut self, contention: Contention) {
        let now = Instant::now();
        self.holder = Holder::Rival { polls: contention.holder_polls };
        self.ticket.refused(now, contention.holder_polls);
        let free_at = contention.free_within.map(|time| now + time + Duration::from_millis(1));
        // An attempt after the expiry found the lock held: a second expiry in a row would be no news.
        self.free_at = free_at.filter(|_| !self.was_expiry);
    }

    /// Waits until there is a reason to ask the store.
    async fn reason_to_ask(&mut self) -> Result<Reason, LockError> {
        let reason = self.next_reason().await?;
        self.ticket.asks(Instant::now());
        Ok(reason)
    }

    async fn next_reason(&mut self) -> Result<Reason, LockError> {
        loop {
            // Releases before the watch began were missed, so ask.
            if let Some(Heard::MayBeFree) = self.begins_to_listen().await? {
                return Ok(Reason::Release);
            }
            let woken = Box::pin(self.sleep()).await?;
            self.was_expiry = woken == Woken::Expiry;
            match woken {
                Woken::Bell => match self.take_turn().await? {
                    Some(until) => self.held_here(until),
                    None => return Ok(Reason::Release),
                },
                Woken::Signal => {
                    if let Some(until) = self.take_turn().await? {
                        self.held_here(until);
                        continue;
                    }
                    self.holder = Holder::Unknown;
                    self.ticket.signalled(Instant::now());
                    if !self.loses_again().await? {
                        return Ok(Reason::Release);
                    }
                }
                Woken::Expiry => return Ok(Reason::Time),
                Woken::Poll => {
                    self.listening.may_try();
                    return Ok(Reason::Time);
                }
                Woken::Listen => self.listening.may_try(),
            }
        }
    }

    /// Opens a watch if one is needed. Returns the outcome of this watch, or of one that was opened beside
    /// the last attempt.
    async fn begins_to_listen(&mut self) -> Result<Option<Heard>, LockError> {
        if let Some(heard) = self.heard.take() {
            return Ok(Some(heard));
        }
        if self.holder == Holder::Local || !self.listening.is_wanted(self.ticket.watch.as_ref()) {
            return Ok(None);
        }
        self.listen().await.map(Some)
    }

    /// A guard of this process has the lock until this time, unless the guard extends it.
    fn held_here(&mut self, until: Instant) {
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
    async fn loses_again(&mut self) -> Result<bool, LockError> {
        let Some(HoldBack { pause, looks }) = self.ticket.hold_back() else { return Ok(false) };
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < pause.end * 10 {
            return Ok(false);
        }
        let pause = pause.start + random_part(pause.end.saturating_sub(pause.start));
        sleep_unless_cancelled(self.token(), rt::after(pause)).await?;
        // While the watch goes on, the head asks without a check.
        if !looks || !self.listening.is_wanted(self.ticket.watch.as_ref()) {
            return Ok(false);
        }
        let is_held = matches!(self.listen().await?, Heard::Held);
        if is_held {
            self.saw_rival(Some(self.holder.polls()));
        }
        Ok(is_held)
    }

    /// A rival was seen with the lock. `polls` says whether the rival polls, if that is known.
    fn saw_rival(&mut self, polls: Option<bool>) {
        self.ticket.lost(Instant::now(), polls.unwrap_or(false));
        self.free_at = None;
        self.holder = Holder::SeenRival { polls: polls.unwrap_or(true) };
    }

    /// Opens a watch.
    async fn listen(&mut self) -> Result<Heard, LockError> {
        let (limit, token) = (self.limit_of_watch(), self.token());
        let watch = self.listening.watch(self.attempt.backend(), self.attempt.key(), limit);
        let (heard, watch) = unless_cancelled(token, watch).await?;
        if let Some(watch) = &watch
            && heard == Heard::Held
        {
            self.holder = Holder::Rival { polls: watch.is_locked_by_a_poller() };
        }
        self.ticket.watch = watch;
        self.ticket.hears(self.listening.has_signals());
        Ok(heard)
    }

    /// How long to wait for a watch: a connection that is being opened must not delay polls.
    fn limit_of_watch(&self) -> Instant {
        let retry_delay = self.attempt.policy().acquisition.retry_delay;
        self.deadline.min(rt::after(Listening::SHORTEST_LIMIT.max(retry_delay)))
    }

    /// Sleeps until the head has something to do.
    async fn sleep(&mut self) -> Result<Woken, LockError> {
        let now = Instant::now();
        if self.holder == Holder::Local || self.listening.again_at(now).is_some() {
            // No watch is opened now, and one that is over would wake the head again and again.
            self.ticket.watch.take_if(|watch| watch.is_over());
        }
        let Some(pause) = self.pauses.next(self.deadline.saturating_duration_since(now)) else {
            return Err(self.gave_up());
        };
        let poll_at = self.poll_at.take().unwrap_or(now + pause);
        let listen_at = self.listening.again_at(now).filter(|at| *at < poll_at);
        let free_at = self.free_at;
        let mut wake_at = listen_at.unwrap_or(poll_at);
        wake_at = free_at.map_or(wake_at, |free_at| free_at.min(wake_at));
        let Some((bell, has_queued)) = self.ticket.waits(wake_at) else {
            self.pauses.was_not_taken();
            return Ok(Woken::Bell);
        };
        // Only the head asks the store. So the waiters behind must not wait for a head with long pauses, and
        // a holder that polls may release without a signal.
        let hears_nothing = self.listening.again_at(now).is_some();
        let shortest =
            (has_queued && hears_nothing || self.holder.polls()).then(|| self.pauses.shortest());
        let look_again =
            (has_queued || matches!(self.holder, Holder::SeenRival { .. })).then_some(LOOK_AGAIN);
        let cut = shortest.into_iter().chain(look_again).min();
        let wake_at = cut.map_or(wake_at, |cut| wake_at.min(now + cut));
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
                () = bell.notified() => Woken::Bell,
                () = signal => Woken::Signal,
                () = sleep_until(wake_at) => {
                    if free_at == Some(wake_at) {
                        Woken::Expiry
                    } else if listen_at == Some(wake_at) {
                        Woken::Listen
                    } else {
                        Woken::Poll
                    }
                }
            }
        };
        let woken = unless_cancelled(token, woken).await?;
        if woken != Woken::Poll || wake_at < poll_at {
            self.pauses.was_not_taken();
        }
        if woken == Woken::Listen {
            self.poll_at = Some(poll_at);
        }
        Ok(woken)
    }

    fn token(&self) -> Option<&'a CancellationToken> {
        self.attempt.policy().cancellation.as_ref()
    }

    fn gave_up(&self) -> LockError {
        self.attempt.gave_up(&self.pauses, &self.answers)
    }
}
