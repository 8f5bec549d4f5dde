//! The faults.

use syncguard_history::{Entry, Fault};

use super::{Simulation, State};
use crate::flaw::Flaw;
use crate::hub::{MILLI, SECOND};
use crate::work::is_spared;

impl Simulation<'_> {
    /// A fault.
    pub(super) fn strike(&mut self) {
        self.next_fault = self.now + (20 + self.random.below(180)) * MILLI;
        let number = usize::try_from(self.random.below(self.plan.members as u64)).unwrap_or(0);
        let slow = if self.plan.flaw == Some(Flaw::SlowRecovery) { 3 * SECOND } else { 0 };
        match self.random.below(100) {
            // Only in its own turn: the time of the others until then comes first.
            0..30 => self.doomed = Some(number),
            30..45 => self.stop(number),
            45..75 => {
                let mut hub = self.net.hub();
                hub.cut(number);
                hub.note(Entry::Fault(Fault::Cut));
            }
            75..92 => {
                let lasts = (50 + self.random.below(1000)) * MILLI;
                let mut hub = self.net.hub();
                hub.slow_down(number, lasts);
                hub.note(Entry::Fault(Fault::Delayed));
            }
            // The whole server, but only after it has served for a while.
            kind if self.heals.is_empty() => {
                let lasts = (50 + self.random.below(1500)) * MILLI;
                self.heals.push(self.now + lasts);
                let mut hub = self.net.hub();
                if kind < 96 {
                    hub.freeze(lasts + slow);
                    hub.note(Entry::Fault(Fault::ServerStopped));
                } else {
                    hub.restart(lasts + slow);
                    hub.note(Entry::Fault(Fault::Restarted));
                }
            }
            _ => {}
        }
    }

    pub(super) fn kill(&mut self, number: usize) {
        if is_spared(number, self.plan.flaw) || !matches!(self.members[number], State::Works(_)) {
            return;
        }
        let until = self.now + self.random.below(300) * MILLI;
        let State::Works(member) =
            std::mem::replace(&mut self.members[number], State::Killed(until))
        else {
            return;
        };
        self.net.hub().run(member.now);
        let process = format!("member-{number}");
        member.killed();
        let mut hub = self.net.hub();
        hub.cut(number);
        hub.note(Entry::Fault(Fault::Killed));
        hub.note(Entry::Ended { process });
    }

    fn stop(&mut self, number: usize) {
        if !matches!(self.members[number], State::Works(_)) {
            return;
        }
        let until = self.now + (200 + self.random.below(4000)) * MILLI;
        if let State::Works(member) =
            std::mem::replace(&mut self.members[number], State::Killed(until))
        {
            self.note(Entry::Fault(Fault::Stopped));
            self.members[number] = State::Stopped(member, until);
        }
    }
}
