//! The data that the locks protect.

use std::collections::{BTreeMap, HashMap};

use super::super::{Answer, Call, Entry, History, Operation};
use super::{Invariant, Violation};

#[derive(Default)]
struct Register<'a> {
    /// Accepted reads and writes, with their fence, and the value as it was then.
    accepted: Vec<(&'a Operation, u64, u64)>,
    written: u64,
    unknown: u64,
    /// The value and the number of writes that were found in the end.
    found: Option<(u64, u64)>,
}

pub(super) fn no_lost_update(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, register) in registers(history) {
        let mut broken = |what: String, proof: Vec<&Operation>| {
            let what = format!("register {name:?}: {what}");
            violations.push(Violation::new(Invariant::NoLostUpdate, what, proof));
        };
        for pair in register.twice_the_same() {
            broken("two writes of one value".to_owned(), pair);
        }
        for pair in register.backwards() {
            broken("a value or a fence that goes back".to_owned(), pair);
        }
        match register.found {
            None => broken("nobody looked at it in the end".to_owned(), Vec::new()),
            Some((value, writes)) if value != writes => {
                let what = format!("{writes} writes made {value}: an update is lost");
                broken(what, Vec::new());
            }
            Some((_, writes)) => {
                let Register { written, unknown, .. } = register;
                if !(written..=written + unknown).contains(&writes) {
                    let what = format!(
                        "it took {writes} writes; {written} were confirmed, {unknown} more may have been"
                    );
                    broken(what, Vec::new());
                }
            }
        }
    }
    violations
}

fn registers(history: &History) -> BTreeMap<&str, Register<'_>> {
    let mut registers: BTreeMap<&str, Register<'_>> = BTreeMap::new();
    for operation in &history.operations {
        match (&operation.call, operation.answer()) {
            (Call::Claim { register, fence }, Some(Answer::Claimed { value })) => {
                let register = registers.entry(register).or_default();
                register.accepted.push((operation, *fence, *value));
            }
            (Call::Write { register, fence, value }, Some(Answer::Written)) => {
                let register = registers.entry(register).or_default();
                register.accepted.push((operation, *fence, *value));
                register.written += 1;
            }
            (Call::Write { register, .. }, _) if operation.is_unknown() => {
                registers.entry(register).or_default().unknown += 1;
            }
            _ => {}
        }
    }
    for (_, note) in &history.notes {
        if let Entry::Register { register, value, writes } = note {
            registers.entry(register).or_default().found = Some((*value, *writes));
        }
    }
    registers
}

impl<'a> Register<'a> {
    fn twice_the_same(&self) -> Vec<Vec<&'a Operation>> {
        let mut writers: HashMap<u64, &Operation> = HashMap::new();
        let writes = self.accepted.iter().filter(|it| matches!(it.0.call, Call::Write { .. }));
        writes
            .filter_map(|(operation, _, value)| {
                writers.insert(*value, operation).map(|before| vec![before, *operation])
            })
            .collect()
    }

    /// Whoever comes after another sees no lower value, and was let in with no lower fence.
    fn backwards(&self) -> Vec<Vec<&'a Operation>> {
        let answered = |operation: &Operation| operation.answered.as_ref().map(|(at, _)| at.steady);
        let mut by_answer = self.accepted.clone();
        by_answer.sort_by_key(|(operation, ..)| answered(operation));
        let mut earlier = by_answer.into_iter().peekable();
        let mut fences: Option<(&Operation, u64)> = None;
        let mut values: Option<(&Operation, u64)> = None;
        let mut pairs = Vec::new();
        for (operation, fence, value) in &self.accepted {
            let before = |(other, ..): &(&Operation, u64, u64)| {
                answered(other).is_some_and(|at| at < operation.called.steady)
            };
            while let Some((other, fence, value)) = earlier.next_if(before) {
                for (highest, number) in [(&mut fences, fence), (&mut values, value)] {
                    if highest.is_none_or(|(_, highest)| highest < number) {
                        *highest = Some((other, number));
                    }
                }
            }
            for (highest, number) in [(fences, fence), (values, value)] {
                if let Some((other, highest)) = highest
                    && highest > *number
                {
                    pairs.push(vec![other, *operation]);
                }
            }
        }
        pairs
    }
}
