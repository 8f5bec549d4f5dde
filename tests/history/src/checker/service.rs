//! After each fault, a call is served in time if there are calls.

use std::sync::Arc;

use super::found::Found;
use super::micros;
use crate::event::{Entry, Fault};
use crate::invariant::{Invariant, Limits};
use crate::operation::Operation;

#[derive(Debug, Default)]
pub(super) struct Service {
    /// Ends of faults that are not judged yet.
    heals: Vec<Heal>,
    /// Ends of faults without a served call since.
    outages: Vec<u64>,
    longest: u64,
}

#[derive(Debug)]
struct Heal {
    at: u64,
    until: u64,
    /// The number of calls.
    calls: u32,
    is_served: bool,
    /// The server failed as a whole once more, so no call can be served, and the time counts from the end of that fault.
    has_failed_again: bool,
    asked: Vec<Arc<Operation>>,
}

impl Service {
    /// This many calls may have been lost on the network.
    const LOST: u32 = 2;

    pub(super) fn note(&mut self, at: u64, note: &Entry, limits: &Limits) {
        match note {
            Entry::Healed => {
                let until = at + micros(limits.outage);
                let (is_served, has_failed_again) = (false, false);
                let (calls, asked) = (0, Vec::new());
                self.heals.push(Heal { at, until, calls, is_served, has_failed_again, asked });
                self.outages.push(at);
            }
            Entry::Fault(Fault::ServerStopped | Fault::Restarted | Fault::Refusing) => {
                for heal in &mut self.heals {
                    heal.has_failed_again |= (heal.at..=heal.until).contains(&at);
                }
            }
            _ => {}
        }
    }

    pub(super) fn called(&mut self, operation: &Operation) {
        let at = operation.called.steady;
        for heal in self.heals.iter_mut().filter(|_| operation.is_about_a_lock()) {
            heal.calls += u32::from((heal.at..=heal.until).contains(&at));
        }
    }

    pub(super) fn closes(&mut self, operation: &Arc<Operation>) {
        if self.heals.is_empty() && self.outages.is_empty() || !operation.is_about_a_lock() {
            return;
        }
        let (called, answered) = (operation.called.steady, operation.over_at());
        for heal in &mut self.heals {
            if (heal.at..=heal.until).contains(&called) {
                heal.is_served |= operation.is_served() && answered <= heal.until;
                if heal.asked.len() < 5 {
                    heal.asked.push(Arc::clone(operation));
                }
            }
        }
        if operation.is_served() {
            for healed in self.outages.extract_if(.., |healed| *healed <= called) {
                self.longest = self.longest.max(answered - healed);
            }
        }
    }

    /// Everything before `now` is known.
    pub(super) fn judge(&mut self, now: u64, limits: &Limits, found: &mut Found) {
        while self.heals.first().is_some_and(|heal| heal.until < now) {
            let heal = self.heals.remove(0);
            if heal.calls > Self::LOST && !heal.is_served && !heal.has_failed_again {
                let what = format!(
                    "no service within {:?} after the fault of {} us",
                    limits.outage, heal.at
                );
                found.add(Invariant::BackInTime, what, heal.asked);
            }
        }
    }

    pub(super) fn longest_outage_ms(&self) -> u64 {
        self.longest / 1000
    }
}
