//! A client and its answers, with any store.
//!
//! Mirrors, in `syncguard-core/src`: `locking/guard/lease.rs` (`extend`: sends the expiry that it knows, and
//! takes over a mismatch's; `release`: at most one, and what fails is tried again in the background),
//! `locking/guard/validity.rs` (`extend_sent`: the earlier of both ends until the answer; `renewed`: a loss
//! is final), `locking/acquire.rs` (a grant whose time is over is given back), `authoring/cancel/mod.rs`
//! (`start`: an acquire of unknown outcome is cleaned up) and `cancel/abandoned_acquire.rs`.

use crate::rules::{Flaw, Rules, Ticks};
use crate::world::{ASIDE, Again, Answer, Asks, Client, Job, Phase, Request, Store, Which};

impl<S: Store> Client<S> {
    pub(crate) fn new(rules: &Rules, index: usize) -> Self {
        Self {
            is_typescript: index < rules.typescript,
            drift: 0,
            left: rules.acquisitions,
            phase: Phase::Idle,
            waits: None,
            late: [None; ASIDE],
            jobs: [None; ASIDE],
        }
    }

    /// Returns true if the client relies on the lock now.
    pub(crate) fn relies(&self) -> bool {
        matches!(self.phase, Phase::Holds { until, .. } if until > 0)
    }

    /// Returns true if the client will end the acquisition with this number.
    pub(crate) fn sees_to(&self, number: u8) -> bool {
        let is_at_it = !matches!(self.phase, Phase::Idle | Phase::Ended { .. });
        is_at_it && self.left == number
            || self.jobs.iter().flatten().any(|job| job.number == number)
    }

    /// Returns true if the lock of the acquisition with this number may still come.
    pub(crate) fn can_acquire(&self, number: u8) -> bool {
        let mut requests = self.waits.iter().chain(self.late.iter().flatten());
        requests.any(|it| it.number == number && it.asks == Asks::Acquire && it.answer.is_none())
    }

    fn send(&mut self, asks: Asks<S>) {
        let (number, at) = (self.left, S::At::default());
        self.waits =
            Some(Request { asks, number, asked: 0, sent: 0, is_again: false, at, answer: None });
    }

    pub(crate) fn acquire(&mut self) {
        self.send(Asks::Acquire);
        self.phase = Phase::Acquires;
    }

    /// Sends an extend, if there is a lock to extend.
    pub(crate) fn extend(&mut self, rules: &Rules, asked: Ticks) -> bool {
        let Phase::Holds { until, known, .. } = &mut self.phase else { return false };
        if *until <= 0 {
            return false;
        }
        if !rules.has(Flaw::OptimisticExtend) {
            *until = asked.min(*until);
        }
        // Earlier extends without an answer may still apply after this one, and shorten the lock.
        if !trusts_last_extend::<S>(rules) {
            let late = self.late.iter().flatten().filter(|late| late.answer.is_none());
            let ttls = late.filter_map(|late| match late.asks {
                Asks::Extend { ttl, .. } => Some(ttl),
                _ => None,
            });
            *until = ttls.fold(*until, Ticks::min);
        }
        let known = *known;
        self.send(Asks::Extend { ttl: asked, known });
        true
    }

    /// Sends the release. From now on the client does not rely on the lock.
    pub(crate) fn release(&mut self) -> bool {
        let Phase::Holds { known, doubt, .. } = self.phase else { return false };
        self.send(Asks::Release { known: S::for_release(known) });
        self.phase = Phase::Releases { doubt };
        true
    }

    /// The store may have finished a request.
    ///
    /// The reply that grants the lock takes some time: its promise counts from before, and it may be lost. For other
    /// replies a delay of the reply is the same as a delay of the request, so they arrive at once; a lost reply is
    /// the same as a request that was given up before it arrived.
    pub(crate) fn answered(&mut self, rules: &Rules, which: Which) {
        match which {
            Which::Late(index) => {
                // The caller is gone.
                self.late[index].take_if(|late| late.answer.is_some());
            }
            Which::Awaited => {
                let answer = self.waits.as_ref().and_then(|request| request.answer);
                if !matches!(answer, None | Some(Answer::Granted(_) | Answer::Extended(_))) {
                    self.receive(rules);
                }
            }
        }
    }

    /// The reply has arrived.
    pub(crate) fn receive(&mut self, rules: &Rules) -> bool {
        let Some(Request { asks, asked, sent, answer: Some(answer), is_again, .. }) = self.waits
        else {
            return false;
        };
        self.waits = None;
        let again = if rules.has(Flaw::NotIdempotent) { Again::Everything } else { S::AGAIN };
        match (asks, answer) {
            (Asks::Acquire, answer) if is_again && again != Again::Everything => match answer {
                Answer::Granted(known) if again == Again::Grant => {
                    let doubt = (!rules.has(Flaw::ForgottenDoubt)).then_some(sent);
                    let from = if rules.has(Flaw::PromiseFromLastSending) { sent } else { asked };
                    self.phase = Phase::Holds { until: (from + rules.ttl).max(0), known, doubt };
                }
                _ => self.over(rules, true, sent),
            },
            (Asks::Acquire, Answer::Granted(known)) => {
                let from = if rules.has(Flaw::PromiseFromReply) { 0 } else { asked };
                let until = (from + rules.ttl).max(0);
                self.phase = Phase::Holds { until, known, doubt: None };
            }
            // Nothing is left of the acquisition. A new attempt has another lock id, which is as good as this one.
            (Asks::Acquire, _) => self.phase = Phase::Idle,
            (Asks::Extend { ttl, .. }, Answer::Extended(told)) => {
                let may_be_overwritten =
                    !trusts_last_extend::<S>(rules) && self.is_extended_late(told);
                if let Phase::Holds { until, known, .. } = &mut self.phase {
                    *known = told;
                    // The TypeScript library relies on any answer.
                    if (*until > 0 && !may_be_overwritten) || self.is_typescript {
                        *until = (asked + ttl).max(0);
                    }
                }
            }
            (Asks::Extend { .. }, Answer::Mismatch(told)) => {
                if let Phase::Holds { known, .. } = &mut self.phase {
                    *known = told;
                }
            }
            // The extend has changed nothing, and the earlier of both ends stays.
            (Asks::Extend { .. }, Answer::Late) => {}
            (Asks::Extend { .. }, _) => {
                if let Phase::Holds { until, .. } = &mut self.phase {
                    *until = 0;
                }
            }
            (Asks::Release { .. }, _) => {
                let Phase::Releases { doubt } = self.phase else { return false };
                self.over(rules, doubt.is_some() || answer == Answer::Late, doubt.unwrap_or(sent));
            }
        }
        true
    }

    /// Returns true if an extend that was given up, and applies to this expiry, may still arrive.
    fn is_extended_late(&self, told: S::Known) -> bool {
        let mut late = self.late.iter().flatten().filter(|late| late.answer.is_none());
        late.any(|late| matches!(late.asks, Asks::Extend { known, .. } if known == told))
    }

    /// The client stops waiting for a reply. Messages on the network stay there.
    pub(crate) fn give_up(&mut self, rules: &Rules) -> bool {
        let Some(request) = self.waits.take() else { return false };
        if request.answer.is_none() && S::is_on_its_way(&request) {
            self.let_go(request);
        }
        match (request.asks, self.phase) {
            (Asks::Acquire, _) => self.over(rules, true, request.sent),
            (Asks::Release { .. }, Phase::Releases { doubt }) => {
                // Both are one job here, because the clean-up of an acquire releases as well.
                self.over(rules, true, doubt.unwrap_or(request.sent));
                if doubt.is_none() {
                    let this =
                        self.jobs.iter_mut().flatten().find(|job| job.number == request.number);
                    if let Some(job) = this {
                        job.is_acquire = false;
                    }
                }
            }
            _ => {}
        }
        true
    }

    /// A request without a caller is on the network.
    pub(crate) fn let_go(&mut self, request: Request<S>) {
        let place = self.late.iter_mut().find(|late| late.is_none());
        *place.expect("a model with room for late requests") = Some(request);
    }

    /// The acquisition is over, and its lock may have to be released.
    fn over(&mut self, rules: &Rules, in_doubt: bool, sent: Ticks) {
        if in_doubt && !self.is_typescript && !rules.has(Flaw::NoCleanUp) {
            let at = S::cleaning(self);
            let place = self.jobs.iter_mut().find(|job| job.is_none());
            let job = Job { is_acquire: true, number: self.left, sent, at };
            *place.expect("a model with room for clean-ups") = Some(job);
        }
        self.left -= 1;
        self.phase = Phase::Idle;
    }

    /// The client crashes. Messages on the network stay there.
    pub(crate) fn crash(&mut self) {
        S::crashed(self);
        if let Some(request) = self.waits.take()
            && request.answer.is_none()
            && S::is_on_its_way(&request)
        {
            self.let_go(request);
        }
        // The background work of the TypeScript library dies with it; its locks end by their TTL.
        self.jobs = [None; ASIDE];
        self.phase = Phase::Ended { at: 0 };
        self.left = 0;
    }
}

/// Returns true if a holder forgets its earlier extends. A version identifies each state. The rule that every extend
/// changes the expiry is for holders that forget them: callers of the bare backend.
fn trusts_last_extend<S: Store>(rules: &Rules) -> bool {
    !S::KNOWN_COMES_BACK || rules.has_any(&[Flaw::TrustsLastExtend, Flaw::SameExpiry])
}

impl<S: Store> Client<S> {
    /// The connection is lost. The backend resends the request on another one; the first sending may still arrive, or
    /// have been carried out.
    pub(crate) fn send_again(&mut self) -> bool {
        let Some(first) = self.waits else { return false };
        if first.answer.is_none() && S::is_on_its_way(&first) {
            self.let_go(first);
        }
        let (at, answer) = (S::At::default(), None);
        self.waits = Some(Request { sent: 0, is_again: true, at, answer, ..first });
        true
    }

    /// The driver sends the request to a second server, and both carry it out.
    pub(crate) fn copy(&mut self) -> bool {
        let Some(request) = &mut self.waits else { return false };
        request.is_again = true;
        let copy = *request;
        self.let_go(copy);
        true
    }
}
