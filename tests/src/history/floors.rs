//! How much has happened.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::fmt;

use super::{Answer, Call, Entry, Fault, History};

/// What a run has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations on locks that were answered.
    pub answered: u64,
    /// Operations whose outcome nobody was told.
    pub unknown: u64,
    /// Locks that were granted.
    pub granted: u64,
    /// Times a lock was held by somebody else.
    pub contended: u64,
    /// Locks that were released.
    pub released: u64,
    /// Locks that were extended.
    pub extended: u64,
    /// Extends that expected another expiry than the lock had.
    pub mismatched: u64,
    /// Releases and extends that came too late.
    pub too_late: u64,
    /// Writes that a register took.
    pub written: u64,
    /// Reads and writes that a register refused because of their fence.
    pub rejected: u64,
    /// Processes that took part.
    pub processes: u64,
    /// Faults, by kind.
    pub faults: HashMap<Fault, u64>,
}

impl History {
    /// Counts what happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let mut processes = BTreeSet::new();
        for operation in &self.operations {
            processes.insert(&operation.process);
            if operation.is_unknown() {
                counts.unknown += 1;
            } else if !matches!(operation.call, Call::Claim { .. } | Call::Write { .. }) {
                counts.answered += 1;
            }
            let count = match operation.answer() {
                Some(Answer::Acquired { .. }) => &mut counts.granted,
                Some(Answer::Locked) => &mut counts.contended,
                Some(Answer::Released) => &mut counts.released,
                Some(Answer::Extended { .. }) => &mut counts.extended,
                Some(Answer::Mismatch { .. }) => &mut counts.mismatched,
                Some(Answer::NotHeld) => &mut counts.too_late,
                Some(Answer::Written) => &mut counts.written,
                Some(Answer::Rejected) => &mut counts.rejected,
                _ => continue,
            };
            *count += 1;
        }
        for (_, note) in &self.notes {
            if let Entry::Fault(fault) = note {
                *counts.faults.entry(*fault).or_default() += 1;
            }
        }
        counts.processes = processes.len() as u64;
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, unknown, granted, contended, released, extended, .. } = self;
        write!(
            f,
            "{answered} answered, {unknown} unknown: {granted} granted, {contended} contended, "
        )?;
        write!(f, "{released} released, {extended} extended, {} mismatched, ", self.mismatched)?;
        write!(f, "{} too late; ", self.too_late)?;
        write!(f, "{} writes, {} rejected; ", self.written, self.rejected)?;
        write!(f, "{} processes; {:?}", self.processes, self.faults)
    }
}

/// Below this, a run does not count.
#[derive(Clone, Debug)]
pub struct Floors {
    /// Operations on locks that were answered.
    pub answered: u64,
    /// Locks that were granted.
    pub granted: u64,
    /// Writes that registers took.
    pub written: u64,
    /// Reads and writes that registers refused.
    pub rejected: u64,
    /// Faults that fired, of each of these kinds.
    pub faults: Vec<(Fault, u64)>,
}

impl Floors {
    /// What is still missing.
    #[must_use]
    pub fn missing(&self, counts: &Counts) -> Vec<String> {
        let fired = |fault| counts.faults.get(fault).copied().unwrap_or_default();
        let mut wanted = vec![
            ("answered", counts.answered, self.answered),
            ("granted", counts.granted, self.granted),
            ("written", counts.written, self.written),
            ("rejected", counts.rejected, self.rejected),
        ];
        let names: Vec<_> = self.faults.iter().map(|(fault, _)| format!("{fault:?}")).collect();
        let faults = self.faults.iter().zip(&names);
        wanted.extend(faults.map(|((fault, floor), name)| (name.as_str(), fired(fault), *floor)));
        wanted.retain(|(_, count, floor)| count < floor);
        wanted.iter().map(|(what, count, floor)| format!("{what}: {count} of {floor}")).collect()
    }
}
