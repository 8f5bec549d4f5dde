//! A client and its answers.
//!
//! Mirrors, in `syncguard-core/src`: `locking/guard/lease.rs` (`extend`: sends the expiry that it knows, and
//! takes over a mismatch's; `release`: at most one, and what fails is tried again in the background),
//! `locking/guard/validity.rs` (`extend_sent`: the earlier of both ends until the answer; `renewed`: a loss
//! is final), `locking/acquire.rs` (a grant whose time is over is given back), `cancel/mod.rs`
//! (`start`: an acquire of unknown outcome is cleaned up) and `cancel/abandoned_acquire.rs`. A backend that sends an
//! acquire a second time keeps a grant, and cleans up after its release (PostgreSQL), or gives it up (a Redis
//! Cluster).

use crate::world::{ASIDE, Answer, Asks, Client, Job, Phase, Request, Rules, Ticks, Which};

impl Client {
    pub(crate) fn new(rules: &Rules, drift: Ticks) -> Self {
        let (left, phase) = (rules.acquisitions, Phase::Idle);
        Self { drift, left, phase, waits: None, late: [None; ASIDE], jobs: [None; ASIDE] }
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

    /// Extends that were given up, and may still arrive: their TTL, and the expiry that they apply to.
    fn late_extends(&self) -> impl Iterator<Item = (Ticks, Ticks)> {
        let late = self.late.iter().flatten().filter(|late| late.answer.is_none());
        late.filter_map(|late| match late.asks {
            Asks::Extend { ttl, known } => Some((ttl, known)),
            _ => None,
        })
    }

    fn send(&mut self, asks: Asks) {
        let number = self.left;
        let request = Request { asks, number, asked: 0, sent: 0, is_again: false, answer: None };
        self.waits = Some(request);
    }

    pub(crate) fn acquire(&mut self) {
        self.send(Asks::Acquire);
        self.phase = Phase::Acquires;
    }

    /// Sends an extend. Until its answer the earlier of both ends counts; and earlier extends without an answer may
    /// still apply after this one, and shorten the lock.
    pub(crate) fn extend(&mut self, ttl: Ticks) {
        let shortest = self.late_extends().map(|(ttl, _)| ttl).fold(ttl, Ticks::min);
        let Phase::Holds { until, known, .. } = &mut self.phase else { return };
        *until = shortest.min(*until);
        let known = *known;
        self.send(Asks::Extend { ttl, known });
    }

    /// Sends the release. From now on the client does not rely on the lock.
    pub(crate) fn release(&mut self) {
        let Phase::Holds { doubt, .. } = self.phase else { return };
        self.send(Asks::Release);
        self.phase = Phase::Releases { doubt };
    }

    /// The store has carried out a request.
    ///
    /// The reply that grants the lock takes some time: its promise counts from before, and it may be lost. For other
    /// replies a delay of the reply is the same as a delay of the request, so they arrive at once; a lost reply is
    /// the same as a request that was given up before it arrived.
    pub(crate) fn answered(&mut self, rules: &Rules, which: Which) {
        match which {
            // The caller is gone.
            Which::Late(index) => self.late[index] = None,
            Which::Awaited => {
                let answer = self.waits.as_ref().and_then(|request| request.answer);
                if !matches!(answer, None | Some(Answer::Granted(_) | Answer::Extended(_))) {
                    self.receive(rules);
                }
            }
        }
    }

    pub(crate) fn receive(&mut self, rules: &Rules) {
        let Some(Request { asks, asked, sent, answer: Some(answer), is_again, .. }) = self.waits
        else {
            return;
        };
        self.waits = None;
        match (asks, answer) {
            (Asks::Acquire, Answer::Granted(known)) => {
                let (until, doubt) = ((asked + rules.ttl).max(0), is_again.then_some(sent));
                self.phase = Phase::Holds { until, known, doubt };
            }
            // The answer is that of one sending, and the other may still be granted.
            (Asks::Acquire, _) if is_again => self.clean_up(Some(sent), true),
            // Nothing is left of the acquisition. A new attempt has another lock id, which is as good as this one.
            (Asks::Acquire, _) => self.phase = Phase::Idle,
            (Asks::Extend { ttl, .. }, Answer::Extended(told)) => {
                let may_be_overwritten = self.late_extends().any(|(_, known)| known == told);
                if let Phase::Holds { until, known, .. } = &mut self.phase {
                    *known = told;
                    if *until > 0 && !may_be_overwritten {
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
            (Asks::Release, answer) => {
                let Phase::Releases { doubt } = self.phase else { return };
                if doubt.is_some() || answer == Answer::Late {
                    self.clean_up(doubt, doubt.is_some());
                } else {
                    self.over();
                }
            }
        }
    }

    /// The client stops waiting for a reply. Messages on the network stay there.
    pub(crate) fn give_up(&mut self) {
        let Some(request) = self.let_go() else { return };
        match (request.asks, self.phase) {
            (Asks::Acquire, _) => self.clean_up(Some(request.sent), request.is_again),
            (Asks::Release, Phase::Releases { doubt }) => self.clean_up(doubt, doubt.is_some()),
            _ => {}
        }
    }

    /// The connection is lost, and the backend sends the request on another one; the first sending may still arrive,
    /// or have been carried out.
    pub(crate) fn send_again(&mut self) {
        let Some(first) = self.let_go() else { return };
        self.waits = Some(Request { sent: 0, is_again: true, answer: None, ..first });
    }

    /// The client crashes. Messages on the network stay there.
    pub(crate) fn crash(&mut self) {
        self.let_go();
        self.jobs = [None; ASIDE];
        self.phase = Phase::Ended { at: 0 };
        self.left = 0;
    }

    /// The request has no receiver any more, and may be on the network.
    fn let_go(&mut self) -> Option<Request> {
        let request = self.waits.take()?;
        if request.answer.is_none() {
            let place = self.late.iter_mut().find(|late| late.is_none());
            *place.expect("a model with room for late requests") = Some(request);
        }
        Some(request)
    }

    /// The acquisition is over, and its lock may have to be released.
    fn clean_up(&mut self, sent: Option<Ticks>, is_again: bool) {
        let place = self.jobs.iter_mut().find(|job| job.is_none());
        let job = Job { sent, is_again, number: self.left };
        *place.expect("a model with room for clean-ups") = Some(job);
        self.over();
    }

    fn over(&mut self) {
        self.left -= 1;
        self.phase = Phase::Idle;
    }
}
