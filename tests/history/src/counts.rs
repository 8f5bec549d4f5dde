//! Counts of events.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Serialize;

use crate::event::{Answer, Entry, Fault};
use crate::operation::Operation;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Operations on locks that were answered.
    pub answered: u64,
    pub unknown: u64,
    pub granted: u64,
    /// Attempts that found the lock held by another caller.
    pub contended: u64,
    /// Attempts that their fence window refused.
    pub refused: u64,
    pub released: u64,
    pub extended: u64,
    /// Extends whose expected expiry was wrong.
    pub mismatched: u64,
    /// Releases and extends that came too late.
    pub too_late: u64,
    pub written: u64,
    /// Reads and writes that a register refused because of their fence.
    pub rejected: u64,
    pub ticks: u64,
    pub uses: u64,
    pub processes: u64,
    pub faults: BTreeMap<Fault, u64>,
    /// The hashed names of the processes.
    #[serde(skip)]
    names: HashSet<u64>,
}

impl Counts {
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.answered + self.unknown + self.written + self.rejected
    }

    #[must_use]
    pub fn all_faults(&self) -> u64 {
        self.faults.values().sum()
    }

    pub fn add(&mut self, other: &Self) {
        for (count, more) in [
            (&mut self.answered, other.answered),
            (&mut self.unknown, other.unknown),
            (&mut self.granted, other.granted),
            (&mut self.contended, other.contended),
            (&mut self.refused, other.refused),
            (&mut self.released, other.released),
            (&mut self.extended, other.extended),
            (&mut self.mismatched, other.mismatched),
            (&mut self.too_late, other.too_late),
            (&mut self.written, other.written),
            (&mut self.rejected, other.rejected),
            (&mut self.ticks, other.ticks),
            (&mut self.uses, other.uses),
            (&mut self.processes, other.processes),
        ] {
            *count += more;
        }
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    /// Counts an operation that has ended.
    pub(crate) fn operation(&mut self, operation: &Operation) {
        let mut hasher = DefaultHasher::new();
        operation.process.hash(&mut hasher);
        self.processes += u64::from(self.names.insert(hasher.finish()));
        if operation.is_unknown() {
            self.unknown += 1;
        } else if operation.is_about_a_lock() {
            self.answered += 1;
        }
        let count = match operation.answer() {
            Some(Answer::Acquired { .. }) => &mut self.granted,
            Some(Answer::Locked) => &mut self.contended,
            Some(Answer::Refused) => &mut self.refused,
            Some(Answer::Released) => &mut self.released,
            Some(Answer::Extended { .. }) => &mut self.extended,
            Some(Answer::Mismatch { .. }) => &mut self.mismatched,
            Some(Answer::NotHeld) => &mut self.too_late,
            Some(Answer::Written) => &mut self.written,
            Some(Answer::Rejected) => &mut self.rejected,
            _ => return,
        };
        *count += 1;
    }

    pub(crate) fn note(&mut self, note: &Entry) {
        match note {
            Entry::Fault(fault) => *self.faults.entry(*fault).or_default() += 1,
            Entry::Tick { .. } => self.ticks += 1,
            Entry::Uses { .. } => self.uses += 1,
            _ => {}
        }
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
        write!(f, "{} ticks, {} refused; {} uses; ", self.ticks, self.refused, self.uses)?;
        write!(f, "{} processes; {:?}", self.processes, self.faults)
    }
}
