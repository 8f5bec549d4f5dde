//! Waiting for a lock: in the line of the process, and as its first one in the store.

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Tried};
use super::gap::left_of_gap;
use super::lines::{Place, Turn};
use super::observed::Waiting;
use super::retry::{Answers, Pauses};
use super::stand::{Came, stand_in_line, unless_cancelled};
use crate::authoring::pause::random_part;
use crate::contract::{IsLockedRequest, WatchRequest};
use crate::rt::{self, Instant, sleep_until};
use crate::{Contention, LockBackend, LockError, LockGuard, LockId};

/// One that waits, with its own limits.
pub(super) struct Contender<'a, B> {
    attempt: &'a Attempt<'a, B>,
    deadline: Instant,
    pauses: Pauses<'a>,
    answers: Answers,
    place: Place,
    /// Whether the store was asked for signals and has none, until it is asked again.
    is_deaf: bool,
    /// When the store is to be asked, if a pause was cut short in order to listen.
    poll_at: Option<Instant>,
    /// Whether the store had no signals when it was asked last.
    has_no_signals: bool,
    /// How many of the last watches, one after the other, were over as soon as they began.
    over_at_once: u32,
    /// Whether the last watch did not find the lock held.
    was_free: bool,
    /// What it was woken by the last time.
    woken: Option<Woken>,
}

/// What one that waits does next.
enum Next {
    Turn(Turn),
    /// Waits as the first; the lock is free at this time at the latest.
    Wait(Option<Instant>),
}

/// Why one that waits goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// A guard of this process has given the lock back, or the one before has left.
    Bell,
    /// The store says that the lock may be free.
    Signal,
    /// The holder's time is over.
    Expiry,
    /// It is time to look.
    Poll,
    /// The store had no signals, and may have some by now.
    Deaf,
}

/// Waits until the lock is granted, or a limit is reached.
///
/// Those who stand in line shall weigh little: whatever only the first of a line needs is in a box that is
/// made when its turn has come.
pub(super) async fn wait<'a, B: LockBackend>(
    attempt: &'a Attempt<'a, B>,
    waiting: &mut Waiting<'_>,
) -> Result<LockGuard<B>, LockError> {
    let now = Instant::now();
    let deadline = now + attempt.policy().acquisition.timeout;
    let (mut place, turn) = Place::enter(attempt.lines(), attempt.key(), now);
    let mut came = Came { turn, at: now, rang: None };
    while let Turn::Later(bell) = &came.turn {
        let rang = stand_in_line(bell, deadline, attempt.policy().cancellation.as_ref()).await?;
        let now = Instant::now();
        if deadline <= now {
            return Err(attempt.gave_up_in_line(place.is_contended(now)));
        }
        came = Came { turn: place.turn(now), at: now, rang: Some(rang) };
    }
    Box::pin(Contender::run(attempt, waiting, place, came, deadline)).await
}

impl<'a, B: LockBackend> Contender<'a, B> {
    /// Waits as the first of its line.
    fn run(
        attempt: &'a Attempt<'a, B>,
        waiting: &'a mut Waiting<'_>,
        place: Place,
        came: Came,
        deadline: Instant,
    ) -> impl Future<Output = Result<LockGuard<B>, LockError>> + Send {
        let mut this = Self {
            attempt,
            deadline,
            pauses: Pauses::new(&attempt.policy().acquisition),
            answers: Answers::default(),
            place,
            is_deaf: false,
            poll_at: None,
            has_no_signals: false,
            over_at_once: 0,
            was_free: false,
            woken: came.rang.unwrap_or(false).then_some(Woken::Bell),
        };
        // The future has room for it once.
        async move {
            let mut sent = came.at;
            let asks_at_once = matches!(came.turn, Turn::Ask);
            if !asks_at_once {
                Box::pin(this.until_due(Next::Turn(came.turn))).await?;
                sent = Instant::now();
            }
            if came.rang.is_some() || !asks_at_once {
                // What those before it have heard counts, should there be no time for an answer of its own.
                this.answers.last_is_contention = this.place.is_contended(sent);
                sent = this.after_a_gap(sent).await?;
            }
            waiting.is_first();
            loop {
                match this.ask(sent, waiting).await? {
                    Tried::Granted(guard) => return Ok(guard),
                    Tried::Locked(contention) => Box::pin(this.refused(contention)).await?,
                    Tried::Late => {
                        // The old id is being released.
                        waiting.go_on_with(LockId::generate()?);
                        Box::pin(this.refused(Contention::unknown())).await?;
                    }
                }
                sent = this.after_a_gap(Instant::now()).await?;
            }
        }
    }

    /// Leaves the key to those who only look from time to time, if it is time for that. What time it is then.
    async fn after_a_gap(&mut self, now: Instant) -> Result<Instant, LockError> {
        let length = self.attempt.policy().acquisition.poll_gap;
        let gap = left_of_gap(length);
        if gap.is_zero() || self.deadline.saturating_duration_since(now) < gap * 2 {
            return Ok(now);
        }
        // All who leave the key alone ask at the end of the gap. Shortly before, whoever has it came in the gap.
        let end = now + gap;
        let quiet = gap.checked_sub(length / 10).filter(|_| self.may_be_free());
        self.place.waits(end);
        if let Some(quiet) = quiet {
            Box::pin(unless_cancelled(self.token(), sleep_until(now + quiet))).await?;
            let key = self.attempt.key().clone();
            let request = IsLockedRequest { key, cancellation: None };
            let look = rt::until(end, self.attempt.backend().is_locked(request));
            if let Some(Ok(true)) = Box::pin(unless_cancelled(self.token(), look)).await? {
                self.place.has_guests(end + length * 10);
            }
        }
        Box::pin(unless_cancelled(self.token(), sleep_until(end))).await?;
        let now = Instant::now();
        self.place.asks(now);
        Ok(now)
    }

    /// One attempt in the store.
    async fn ask(
        &mut self,
        sent: Instant,
        waiting: &mut Waiting<'_>,
    ) -> Result<Tried<B>, LockError> {
        let lock_id = waiting.attempt();
        self.answers.attempts = waiting.attempts();
        if let Some(watch) = &mut self.place.watch {
            // What was heard until now is asked about.
            watch.forget();
        }
        // An attempt that is cut off here cleans up after itself: see `LockBackend::acquire`.
        let once = self.attempt.once(lock_id, sent, Some(&mut self.place));
        let tried = rt::until(self.deadline, once).await;
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

    /// Somebody else has the lock: waits until there is a reason to ask again.
    async fn refused(&mut self, contention: Contention) -> Result<(), LockError> {
        let now = Instant::now();
        self.place.refused(now, self.was_race(), self.has_no_signals);
        let free_at = contention.free_within.map(|time| now + time + Duration::from_millis(1));
        if !self.is_listening() && !self.is_deaf && !Box::pin(self.listens_to_a_held_lock()).await?
        {
            // What happened before it listened was not heard.
            self.place.asks(Instant::now());
            return Ok(());
        }
        self.until_due(Next::Wait(free_at)).await
    }

    /// Waits until the store is to be asked.
    async fn until_due(&mut self, mut next: Next) -> Result<(), LockError> {
        loop {
            next = match next {
                Next::Turn(Turn::Ask) => return Ok(()),
                Next::Turn(Turn::StepBack(range)) => {
                    self.hold_back(random_in(&range)).await?;
                    // Where there are others, one of them has it by now: listening tells.
                    let looks = u32::from(!range.start.is_zero());
                    if self.stays_free(looks).await? || self.is_deaf {
                        break;
                    }
                    self.place.was_outrun(Instant::now());
                    Next::Wait(None)
                }
                Next::Turn(Turn::Held(until)) => Next::Wait(Some(until)),
                Next::Turn(Turn::Later(bell)) => self.stand_in_line(&bell).await?,
                Next::Wait(free_at) => match Box::pin(self.sleep(free_at)).await? {
                    Woken::Bell => Next::Turn(self.place.turn(Instant::now())),
                    Woken::Signal => {
                        if let Some(until) = self.is_held_here() {
                            next = Next::Wait(Some(until));
                            continue;
                        }
                        let hold_back = self.place.hold_back(Instant::now());
                        self.hold_back(random_in(&hold_back.range)).await?;
                        if self.stays_free(hold_back.looks).await? || self.is_deaf {
                            break;
                        }
                        self.place.was_outrun(Instant::now());
                        Next::Wait(None)
                    }
                    Woken::Expiry => break,
                    Woken::Poll => {
                        self.is_deaf = false;
                        break;
                    }
                    Woken::Deaf => {
                        let waits = Box::pin(self.listens_to_a_held_lock()).await?;
                        // Its watches are over at once, but this one says that the lock is free: no signal and
                        // maybe no poll follows for long.
                        if !waits || self.was_free {
                            break;
                        }
                        Next::Wait(free_at)
                    }
                },
            };
        }
        self.place.asks(Instant::now());
        Ok(())
    }

    /// Waits behind others: it was passed over, since nobody drove it.
    async fn stand_in_line(&mut self, bell: &Notify) -> Result<Next, LockError> {
        let rang = stand_in_line(bell, self.deadline, self.token()).await?;
        self.woken = rang.then_some(Woken::Bell);
        let now = Instant::now();
        if self.deadline <= now {
            return Err(self.gave_up_in_line(now));
        }
        Ok(Next::Turn(self.place.turn(now)))
    }

    /// Waits as the first of its line.
    async fn sleep(&mut self, free_at: Option<Instant>) -> Result<Woken, LockError> {
        let now = Instant::now();
        let Some(pause) = self.pauses.next(self.deadline.saturating_duration_since(now)) else {
            return Err(self.gave_up());
        };
        // Twice in a row, the end of the holder's time is no news.
        let free_at = free_at.filter(|_| self.woken != Some(Woken::Expiry));
        let poll_at = self.poll_at.take().unwrap_or(now + pause);
        let listen_at =
            self.is_deaf.then(|| now + self.listens_again_in()).filter(|at| *at < poll_at);
        let wake_at = listen_at.unwrap_or(poll_at);
        let wake_at = free_at.map_or(wake_at, |free_at| free_at.min(wake_at));
        let Some((bell, has_others)) = self.place.waits(wake_at) else {
            self.pauses.was_not_taken();
            return Ok(Woken::Bell);
        };
        // Those behind must not wait for a first one that is patient, and it is the only one who asks.
        let shortest = self.is_deaf.then(|| self.pauses.shortest());
        let cut = shortest.map_or(Place::LOOK_AGAIN, |pause| pause.min(Place::LOOK_AGAIN));
        let wake_at = if has_others { wake_at.min(now + cut) } else { wake_at };
        let token = self.token();
        let watch = &mut self.place.watch;
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
                        Woken::Deaf
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
        if woken == Woken::Deaf {
            self.poll_at = Some(poll_at);
            return Ok(woken);
        }
        self.woken = Some(woken);
        Ok(woken)
    }

    /// Whether something said that the lock may be free.
    fn may_be_free(&self) -> bool {
        self.woken.is_some_and(|woken| woken != Woken::Poll)
    }

    /// Whether something said that the lock may be free, and others may have been woken by it.
    fn was_race(&self) -> bool {
        matches!(self.woken, Some(Woken::Bell | Woken::Signal))
    }

    /// Whether no look finds the lock held. Where it still listens, it asks without a look.
    async fn stays_free(&mut self, looks: u32) -> Result<bool, LockError> {
        let looks = if self.is_listening() { 0 } else { looks };
        for _ in 0..looks {
            if Box::pin(self.listens_to_a_held_lock()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Until when a guard of this process has the lock, at the most. Its end rings the bell; what is
    /// signalled before is known.
    fn is_held_here(&mut self) -> Option<Instant> {
        let Turn::Held(until) = self.place.turn(Instant::now()) else { return None };
        if !self.is_listening() {
            self.place.watch = None;
        }
        Some(until)
    }

    fn is_listening(&self) -> bool {
        self.place.watch.as_ref().is_some_and(|watch| !watch.is_over())
    }

    /// Begins to listen. Whether the lock was still held then, or nobody knows because the store has no
    /// signals.
    async fn listens_to_a_held_lock(&mut self) -> Result<bool, LockError> {
        // Polls must not wait for a connection that is being opened. It is asked for again.
        const SHORTEST: Duration = Duration::from_millis(200);
        let longest = SHORTEST.max(self.attempt.policy().acquisition.retry_delay);
        let request = WatchRequest::new(self.attempt.key().clone());
        let watch = self.attempt.backend().watch(request);
        let limit = self.deadline.min(rt::after(longest));
        let watch = unless_cancelled(self.token(), rt::until(limit, watch)).await?.flatten();
        self.has_no_signals = watch.is_none();
        self.was_free = watch.as_ref().is_some_and(|watch| !watch.is_locked());
        let Some(watch) = watch else {
            self.is_deaf = true;
            self.over_at_once = 0;
            self.place.watch = None;
            return Ok(true);
        };
        // A signal that came at once says to ask. Twice in a row it says that nothing is heard, or that others
        // hand the key on more quickly than one can listen.
        let is_over = watch.is_over();
        self.over_at_once = if is_over { self.over_at_once.saturating_add(1) } else { 0 };
        self.is_deaf = self.over_at_once > 1;
        let is_held = watch.is_locked();
        self.place.watch = Some(watch).filter(|_| !is_over);
        Ok(self.is_deaf || (is_held && !is_over))
    }

    /// How long one that hears nothing waits until it asks for signals again: not for long at first if watches
    /// were over at once, and up to a second. A connection that was lost may be back long before the next poll.
    fn listens_again_in(&self) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(2);
        const LONGEST: Duration = Duration::from_secs(1);
        match self.over_at_once {
            0 | 1 => LONGEST,
            times => LONGEST.min(SHORTEST * (1 << (times - 2).min(9))),
        }
    }

    /// Lets others go first, unless there is hardly any time left.
    async fn hold_back(&self, pause: Duration) -> Result<(), LockError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if pause.is_zero() || left < pause * 10 {
            return Ok(());
        }
        unless_cancelled(self.token(), sleep_until(rt::after(pause))).await
    }

    fn token(&self) -> Option<&'a CancellationToken> {
        self.attempt.policy().cancellation.as_ref()
    }

    fn gave_up(&self) -> LockError {
        self.attempt.gave_up(&self.pauses, &self.answers)
    }

    /// The time is over, and the store was never asked by this one since others were before it.
    fn gave_up_in_line(&self, now: Instant) -> LockError {
        self.attempt.gave_up_in_line(self.place.is_contended(now))
    }
}

fn random_in(range: &Range<Duration>) -> Duration {
    range.start + random_part(range.end.saturating_sub(range.start))
}
