//! The faults.

use syncguard_history::{Entry, Fault};

use super::{Simulation, State};
use crate::flaw::Flaw;
use crate::network::{MILLI, SECOND};
use crate::plan::Store;
use crate::server::Refusal;
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
            45..70 => {
                let mut network = self.net.state();
                network.cut(number);
                network.note(Entry::Fault(Fault::Cut));
            }
            70..85 => {
                let lasts = self.millis(50, 1000);
                let mut network = self.net.state();
                network.slow_down(number, lasts);
                network.note(Entry::Fault(Fault::Delayed));
            }
            85..88 => {
                let mut network = self.net.state();
                network.silence(number);
                network.note(Entry::Fault(Fault::Silent));
            }
            88..91 => {
                let lasts = self.millis(500, 3000);
                let mut network = self.net.state();
                // Connections that are open stay open, so only after a cut there are new ones.
                network.cut(number);
                network.hide(number, lasts);
                network.note(Entry::Fault(Fault::Hidden));
            }
            _ if self.plan.empties && self.random.percent(20) => {
                let mut network = self.net.state();
                network.empties();
                network.note(Entry::Fault(Fault::Emptied));
            }
            // The whole server, but only after it has served for a while.
            kind if self.heals.is_empty() => {
                let lasts = self.millis(50, 1500);
                let is_full = self.random.percent(50);
                self.heals.push(self.now + lasts);
                let mut network = self.net.state();
                let fault = match kind {
                    91..94 => {
                        network.freeze(lasts + slow);
                        Fault::ServerStopped
                    }
                    94..97 => {
                        network.restart(lasts + slow);
                        Fault::Restarted
                    }
                    _ => {
                        network
                            .refuse(if is_full { Refusal::Full } else { Refusal::Replica }, lasts);
                        Fault::Refusing
                    }
                };
                network.note(Entry::Fault(fault));
            }
            _ => {}
        }
    }

    /// A number of milliseconds from the first up to the sum, in microseconds.
    fn millis(&mut self, least: u64, more: u64) -> u64 {
        (least + self.random.below(more)) * MILLI
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
        let mut network = self.net.state();
        network.run(member.now);
        network.closes_all(number);
        drop(network);
        let process = format!("member-{number}");
        member.killed();
        let mut network = self.net.state();
        network.cut(number);
        network.note(Entry::Fault(Fault::Killed));
        network.note(Entry::Ended { process });
    }

    fn stop(&mut self, number: usize) {
        if !matches!(self.members[number], State::Works(_)) {
            return;
        }
        // A store in memory sleeps with its process. Few are asleep for long, since the others need rivals.
        let is_suspended = self.plan.store != Store::Memory && self.random.percent(40);
        let is_long = is_suspended && self.random.percent(4);
        let most = if is_long { 60_000 } else { 4000 };
        let until = self.now + (200 + self.random.below(most)) * MILLI;
        if let State::Works(mut member) =
            std::mem::replace(&mut self.members[number], State::Killed(until))
        {
            let fault = if is_suspended { Fault::Suspended } else { Fault::Stopped };
            self.note(Entry::Fault(fault));
            member.is_suspended = is_suspended;
            self.members[number] = State::Stopped(member, until);
        }
    }
}
