//! What is known of one lock id.

use std::collections::VecDeque;
use std::sync::Arc;

use syncguard_core::contract::TIME_TOLERANCE;

use super::{micros, millis};
use crate::event::{Answer, Call, Moment};
use crate::invariant::Limits;
use crate::operation::Operation;

/// How many of its operations are kept for a proof.
const PROOF: usize = 12;

/// Everything that was done with one lock id, as far as it still matters.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) id: Arc<str>,
    pub(super) key: usize,
    /// When it was first asked for.
    pub(super) began: u64,
    /// What happened to it last.
    pub(super) last: u64,
    /// Acquires and extends that are under way.
    pub(super) open: Vec<Open>,
    pub(super) grant: Option<Grant>,
    /// The first fence that was seen, and by whom.
    pub(super) fence: Option<(u64, Arc<Operation>)>,
    pub(super) relied: Relied,
    pub(super) life: Life,
    pub(super) window: Window,
    /// The release that has won.
    pub(super) released: Option<Arc<Operation>>,
    /// The first time at which somebody was told that it is over.
    pub(super) over: Option<(u64, Arc<Operation>)>,
    proof: VecDeque<Arc<Operation>>,
}

/// An operation that is under way, and until when it would let its holder rely on the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) called: u64,
    /// `None` for an acquire.
    pub(super) promised: Option<u64>,
}

/// How its holder learned that it is his.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) operation: Arc<Operation>,
    pub(super) answered: u64,
    pub(super) fence: u64,
}

/// For how long its holder relies on it, by his own clock, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Relied {
    from: u64,
    until: u64,
    given_up: Option<u64>,
}

/// From when until when it certainly lives, by the store's clock, in milliseconds.
#[derive(Debug)]
pub(super) struct Life {
    acquired_at: Option<u64>,
    /// What the store has said last; several where answers crossed.
    words: Vec<Word>,
    /// When the last word was asked for.
    asked: Moment,
    /// Extends of unknown outcome may have made it end then.
    may_end: u64,
    /// The same for those that expected what the store has said; a later one has made an end of that.
    conditional: Vec<(u64, u64)>,
    confirmed: u64,
    freed: u64,
}

#[derive(Debug)]
struct Word {
    answered: u64,
    expires_at: u64,
}

/// From when until when it can have been live, in microseconds.
#[derive(Debug)]
pub(super) struct Window {
    /// When it was first asked for by somebody who may have got it.
    from: Option<u64>,
    until: u64,
    released: u64,
    /// Until when an acquire may be carried out once more.
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

    /// One more of its operations is over.
    pub(super) fn keep(&mut self, operation: &Arc<Operation>) {
        if self.proof.len() == PROOF {
            // How it began stays.
            self.proof.remove(1);
        }
        self.proof.push_back(Arc::clone(operation));
    }

    pub(super) fn proof(&self) -> impl Iterator<Item = Arc<Operation>> + use<'_> {
        self.proof.iter().cloned()
    }

    /// Whether its holder relies on it at that time, as far as it is known now.
    pub(super) fn is_relied_on(&self, at: u64) -> bool {
        let until =
            self.open.iter().filter_map(|open| open.promised).fold(self.relied.until, u64::min);
        self.grant.is_some()
            && self.relied.from <= at
            && at < until
            && self.relied.given_up.is_none_or(|given_up| at < given_up)
    }

    /// From when until when he does, in words.
    pub(super) fn span(&self) -> String {
        let until = self.relied.given_up.map_or(self.relied.until, |it| it.min(self.relied.until));
        format!("from {} to {}", self.relied.from, until)
    }

    /// The holder is told that it is his: whether he relies on it from now on.
    pub(super) fn is_granted(&mut self, operation: &Arc<Operation>, ttl: u64, fence: u64) -> bool {
        let answered = operation.over_at();
        self.grant = Some(Grant { operation: Arc::clone(operation), answered, fence });
        self.relied.from = answered;
        self.relied.until = operation.called.steady + ttl * 1000;
        self.is_relied_on(answered)
    }

    /// An extend is answered: whether the holder relies on it anew, after a time in which he did not.
    pub(super) fn is_prolonged(&mut self, operation: &Operation, ttl: u64) -> bool {
        if self.grant.is_none() {
            return false;
        }
        // While an extend is under way the shorter of the two counts.
        let promised = operation.called.steady + ttl * 1000;
        let meanwhile = self.relied.until.min(promised);
        match &operation.answered {
            Some((answered, Answer::Extended { .. } | Answer::Mismatch { .. })) => {
                // A mismatch has changed nothing.
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

    /// Whether its holder has given it up.
    pub(super) fn is_let_go(&self) -> bool {
        self.relied.given_up.is_some()
    }

    /// The holder gives it up.
    pub(super) fn is_given_up(&mut self, at: u64) {
        let given_up = self.relied.given_up.get_or_insert(at);
        *given_up = at.min(*given_up);
    }

    /// From when until when it can have been live.
    pub(super) fn could_live(&self) -> Option<(u64, u64)> {
        let from = self.window.from?;
        Some((from, self.window.until.min(self.window.released.max(self.window.resent))))
    }

    /// When nothing can be seen of it any more.
    pub(super) fn is_over_at(&self) -> u64 {
        self.could_live().map_or(self.last, |(_, until)| until.max(self.last))
    }

    /// Its life by the store's clock, if the store has said anything of it.
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
            // Nobody was told that it is his, so the backend gives it back by itself, which no
            // holder records: it is certain as long as it was seen.
            until = until.min(self.life.asked.unix.saturating_sub(slack));
        }
        until = until.min(self.life.freed.saturating_sub(slack));
        // Whoever takes it over has another clock.
        Some((from, until.saturating_sub(millis(limits.drift))))
    }
}

impl Life {
    /// The store has said when it expires.
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

    /// It was carried out once more: what was said of it before is over.
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

    /// Whether "not held" says that it is over for good: where locks live by clocks that are apart, and may be
    /// set back, one of them can have been ahead.
    pub(super) fn is_over_by_all(&self, called: Moment, limits: &Limits) -> bool {
        let last = self.words.iter().map(|word| word.expires_at).max().unwrap_or(0);
        let drift = millis(limits.drift);
        drift == 0 || last + millis(TIME_TOLERANCE) + drift <= called.unix
    }

    /// It was extended for certain.
    pub(super) fn is_confirmed(&mut self, called: u64) {
        self.confirmed = self.confirmed.max(called);
        self.conditional.retain(|(other, _)| *other >= called);
    }

    /// An extend of unknown outcome may have been carried out after everything that was confirmed.
    pub(super) fn may_be_shorter(&mut self, called: Moment, ttl: u64, expected: Option<u64>) {
        let end = called.unix + ttl;
        if expected.is_none() {
            self.may_end = self.may_end.min(end);
        } else if called.steady >= self.confirmed {
            self.conditional.push((called.steady, end));
        }
    }

    /// A release may have ended it.
    pub(super) fn may_be_freed(&mut self, called: Moment) {
        self.freed = self.freed.min(called.unix);
    }
}

impl Window {
    /// An acquire or an extend that was carried out, or may have been. `gone`: when its caller was,
    /// where nobody was told its outcome.
    pub(super) fn opens(&mut self, operation: &Operation, gone: u64, limits: &Limits) {
        let (ttl, is_acquire) = match operation.call {
            Call::Acquire { ttl, .. } => (ttl, true),
            Call::Extend { ttl, .. } => (ttl, false),
            _ => return,
        };
        let called = operation.called.steady;
        if is_acquire && matches!(operation.answer(), Some(Answer::Failed { .. })) {
            // It may have been carried out and taken back before its caller was told, as where no replica
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

    /// Whether what was called then may concern another sending of its acquire.
    pub(super) fn may_be_again(&self, called: u64) -> bool {
        called <= self.resent
    }

    /// It was released.
    pub(super) fn closes(&mut self, at: u64) {
        self.released = self.released.min(at);
    }
}
