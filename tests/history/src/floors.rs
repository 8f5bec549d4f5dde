//! The least that a run must have done.

use crate::counts::Counts;
use crate::event::Fault;

/// The minimum of each count for a valid run.
#[derive(Clone, Debug)]
pub struct Floors {
    pub answered: u64,
    pub granted: u64,
    pub written: u64,
    pub rejected: u64,
    /// Faults that fired, of each of these kinds.
    pub faults: Vec<(Fault, u64)>,
}

impl Floors {
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
