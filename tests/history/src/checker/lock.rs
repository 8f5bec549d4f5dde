//! The checker's knowledge of a lock id.

use std::collections::VecDeque;
use std::sync::Arc;

use syncguard_core::contract::TIME_TOLERANCE;

use super::{micros, millis};
use crate::event::{Answer, Call, Moment};
use crate::invariant::Limits;
use crate::operation::Operation;

/// The number of operations that are kept for a proof.
const PROOF: usize = 12;

/// The operations with one lock id, as far as they still matter.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) id: Arc<str>,
    pub(super) key: usize,
    /// The time of the first acquire.
    pub(super) began: u64,
    /// The last operations.
    pub(super) last: u64,
    /// Acquires and extends in progress.
    pub(super) open: Vec<Open>,
    pub(super) grant: Option<Grant>,
    /// The first fence that was seen, and the operation that saw it.
    pub(super) fence: Option<(u64, Arc<Operation>)>,
    pub(super) relied: Relied,
    pub(super) life: Life,
    pub(super) window: Window,
    /// The release that succeeded.
    pub(super) released: Option<Arc<Operation>>,
    /// The first time at which a caller was told that the lock is over.
    pub(super) over: Option<(u64, Arc<Operation>)>,
    proof: VecDeque<Arc<Operation>>,
}

/// An operation in progress, and how long its holder could rely on the lock after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) called: u64,
    /// `None` for an acquire.
    pub(super) promised: Option<u64>,
}

/// The operation that told the holder of the grant.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) operation: Arc<Operation>,
    pub(super) answered: u64,
    pub(super) fence: u64,
}

/// How long the holder relies on the lock by its own clock, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Relied {
    from: u64,
    until: u64,
    given_up: Option<u64>,
}

/// The interval in which the lock is certainly live by the store's clock, in milliseconds.
#[derive(Debug)]
pub(super) struct Life {
    acquired_at: Option<u64>,
    /// The last expiry that the store has reported; several if answers crossed.
    words: Vec<Word>,
    /// The time of the call with the last report.
    asked: Moment,
    /// The ends that extends of unknown outcome may have set.
    may_end: u64,
    /// The same for extends that expected the reported expiry; a later report rules them out.
    conditional: Vec<(u64, u64)>,
    confirmed: u64,
    freed: u64,
}

#[derive(Debug)]
struct Word {
    answered: u64,
    expires_at: u64,
}

/// The interval in which the lock can have been live, in microseconds.
#[derive(Debug)]
pub(super) struct Window {
    /// The time of the first acquire that may have been granted.
    from: Option<u64>,
    until: u64,
    released: u64,
    /// The latest time at which an acquire may be carried out once more.
    resent: u64,
}

impl Lock {
    pub(super) fn new(id: &str, key: usize, began: u64) -> Self {
        let asked = Moment { steady: 0, unix: 0 };
        Self {
            id: id.into(),
            key,
            began,
            last: began,
            open: Vec::new(),
            grant: None,
            fence: None,
            relied: Relied::default(),
            life: Life {
                acquired_at: None,
                words: Vec::new(),
                asked,
                may_end: u64::MAX,
                conditional: Vec::new(),
                confirmed: 0,
                freed: u64::MAX,
            },
            window: Window { from: None, until: 0, released: u64::MAX, resent: 0 },
            released: None,
            over: None,
            proof: VecDeque::new(),
        }
    }

    /// One more operation has ended.
    pub(super) fn keep(&mut self, operation: &Arc<Operation>) {
        if self.proof.len() == PROOF {
            // The first operations are kept.
            self.proof.remove(1);
        }
        self.proof.push_back(Arc::clone(operation));
    }

    pub(super) fn proof(&self) -> impl Iterator<Item = Arc<Operation>> + use<'_> {
        self.proof.iter().cloned()
    }

    /// Returns true if the holder relies on the lock at that time, as far as is known now.
    pub(super) fn is_relied_on(&self, at: u64) -> bool {
        let until =
            self.open.iter().filter_map(|open| open.promised).fold(self.relied.until, u64::min);
        self.grant.is_some()
            && self.relied.from <= at
            && at < until
            && self.relied.given_up.is_none_or(|given_up| at < given_up)
    }

    /// The interval in which the holder relies on the lock, as text.
    pub(super) fn span(&self) -> String {
        let until = self.relied.given_up.map_or(self.relied.until, |it| it.min(self.relied.until));
        format!("from {} to {}", self.relied.from, until)
    }

    /// The holder is told of the grant. Returns true if the holder relies on the lock from now on.
    pub(super) fn is_granted(&mut self, operation: &Arc<Operation>, ttl: u64, fence: u64) -> bool {
        let answered = operation.over_at();
        self.grant = Some(Grant { operation: Arc::clone(operation), answered, fence });
        self.relied.from = answered;
        self.relied.until = operation.called.steady + ttl * 1000;
        self.is_relied_on(answered)
    }

    /// An extend is answered. Returns true if the holder relies on the lock again after a time without.
    pub(super) fn is_prolonged(&mut self, operation: &Operation, ttl: u64) -> bool {
        if self.grant.is_none() {
            return false;
        }
        // While an extend is in progress, the shorter of the two times counts.
        let promised = operation.called.steady + ttl * 1000;
        let meanwhile = self.relied.until.min(promised);
        match &operation.answered {
            Some((answered, Answer::Extended { .. } | Answer::Mismatch { .. })) => {
                // A mismatch changes nothing.
                if matches!(operation.answer(), Some(Answer::Extended { .. })) {
                    self.relied.until = promised;
                }
                let lapsed = meanwhile < answered.steady;
                if lapsed {
                    self.relied.from = answered.steady;
                }
                lapsed && self.is_relied_on(answered.steady)
            }
            Some((answered, Answer::NotHeld)) => {
                self.relied.until = meanwhile.min(answered.steady);
                false
            }
            _ => {
                self.relied.until = meanwhile;
                false
            }
        }
    }

    /// Returns true if the holder has given up the lock.
    pub(super) fn is_let_go(&self) -> bool {
        self.relied.given_up.is_some()
    }

    /// The holder gives up the lock.
    pub(super) fn is_given_up(&mut self, at: u64) {
        let given_up = self.relied.given_up.get_or_insert(at);
        *given_up = at.min(*given_up);
    }

    /// The interval in which the lock can have been live.
    pub(super) fn could_live(&self) -> Option<(u64, u64)> {
        let from = self.window.from?;
        Some((from, self.window.until.min(self.window.released.max(self.window.resent))))
    }

    /// The time from which the lock cannot be seen any more.
    pub(super) fn is_over_at(&self) -> u64 {
        self.could_live().map_or(self.last, |(_, until)| until.max(self.last))
    }

    /// The life of the lock by the store's clock, if the store has reported it.
    pub(super) fn life(&self, limits: &Limits) -> Option<(u64, u64)> {
        let Life { words, conditional, .. } = &self.life;
        let from = self.life.acquired_at?;
        let slack = millis(limits.clocks);
        let mut expires_at = words.iter().map(|word| word.expires_at).min()?;
        for (_, end) in conditional {
            expires_at = expires_at.min(end.saturating_sub(slack));
        }
        expires_at = expires_at.min(self.life.may_end.saturating_sub(slack));
        let mut until = expires_at + millis(TIME_TOLERANCE);
        if self.grant.is_none() {
            // No caller was told of the grant, so the backend releases the lock by itself and no holder records that:
            // the lock is certain only as long as it was seen.
            until = until.min(self.life.asked.unix.saturating_sub(slack));
        }
        until = until.min(self.life.freed.saturating_sub(slack));
        // The client that takes the lock over has another clock.
        Some((from, until.saturating_sub(millis(limits.drift))))
    }
}

impl Life {
    /// The store has reported the expiry.
    pub(super) fn says(
        &mut self,
        operation: &Operation,
        acquired_at: Option<u64>,
        expires_at: u64,
    ) {
        let answered = operation.over_at();
        if self.acquired_at.is_none() {
            self.acquired_at = acquired_at;
        }
        self.asked = self.asked.max(operation.called);
        let asked = self.asked.steady;
        self.words.push(Word { answered, expires_at });
        self.words.retain(|word| word.answered >= asked);
    }

    /// The acquire was carried out once more: earlier reports are void.
    pub(super) fn restarts(&mut self, operation: &Operation) {
        let (acquired_at, expires_at) = match (operation.answer(), &operation.call) {
            (Some(Answer::Found { acquired_at, expires_at, .. }), _) => (*acquired_at, *expires_at),
            (Some(Answer::Acquired { expires_at, .. }), Call::Acquire { ttl, .. }) => {
                (expires_at.saturating_sub(*ttl), *expires_at)
            }
            _ => return,
        };
        self.words.clear();
        self.acquired_at = Some(acquired_at);
        self.asked = operation.called;
        self.says(operation, None, expires_at);
    }

    /// Returns true if "not held" means that the lock is over for good. If locks live by clocks that differ and may
    /// be set back, one of them can have been ahead.
    pub(super) fn is_over_by_all(&self, called: Moment, limits: &Limits) -> bool {
        let last = self.words.iter().map(|word| word.expires_at).max().unwrap_or(0);
        let drift = millis(limits.drift);
        drift == 0 || last + millis(TIME_TOLERANCE) + drift <= called.unix
    }

    /// The lock was certainly extended.
    pub(super) fn is_confirmed(&mut self, called: u64) {
        self.confirmed = self.confirmed.max(called);
        self.conditional.retain(|(other, _)| *other >= called);
    }

    /// An extend of unknown outcome may have been carried out after all confirmed operations.
    pub(super) fn may_be_shorter(&mut self, called: Moment, ttl: u64, expected: Option<u64>) {
        let end = called.unix + ttl;
        if expected.is_none() {
            self.may_end = self.may_end.min(end);
        } else if called.steady >= self.confirmed {
            self.conditional.push((called.steady, end));
        }
    }

    /// A release may have ended the lock.
    pub(super) fn may_be_freed(&mut self, called: Moment) {
        self.freed = self.freed.min(called.unix);
    }
}

impl Window {
    /// An acquire or an extend that was or may have been carried out. `gone`: the time at which its caller was gone,
    /// if no caller was told the outcome.
    pub(super) fn opens(&mut self, operation: &Operation, gone: u64, limits: &Limits) {
        let (ttl, is_acquire) = match operation.call {
            Call::Acquire { ttl, .. } => (ttl, true),
            Call::Extend { ttl, .. } => (ttl, false),
            _ => return,
        };
        let called = operation.called.steady;
        let may_be_undone = match operation.answer() {
            Some(Answer::Failed { .. }) => true,
            // On stores without deadlines, a backend ends what an unanswered sending took before it says "locked".
            Some(Answer::Locked) => !limits.drift.is_zero(),
            _ => false,
        };
        if is_acquire && may_be_undone {
            // The store may have carried it out and undone it before its caller was told, for example if no replica
            // confirms it.
            self.from = Some(self.from.map_or(called, |from| from.min(called)));
            self.until = self.until.max(operation.over_at());
        }
        let known = if operation.is_unknown() {
            gone + micros(limits.in_flight)
        } else if matches!(
            operation.answer(),
            Some(Answer::Acquired { .. } | Answer::Extended { .. })
        ) {
            operation.over_at()
        } else {
            return;
        };
        self.until = self.until.max(known + ttl * 1000 + micros(TIME_TOLERANCE + limits.orphan));
        if is_acquire {
            self.from = Some(self.from.map_or(called, |from| from.min(called)));
            if !limits.resent.is_zero() {
                self.resent = self.resent.max(called + micros(limits.resent));
            }
        }
    }

    /// Returns true if an operation that was called then may refer to another sending of the acquire.
    pub(super) fn may_be_again(&self, called: u64) -> bool {
        called <= self.resent
    }

    /// The lock was released.
    pub(super) fn closes(&mut self, at: u64) {
        self.released = self.released.min(at);
    }
}
