//! Reduces a history to the operations that matter.

use std::collections::HashSet;

use crate::event::{Answer, Call, Entry};
use crate::history::{History, check};
use crate::invariant::{Invariant, Limits, Violation};
use crate::operation::Operation;

/// Reduces a history to the fewest operations that still break the invariant of a violation, in their order.
///
/// If the violation is an event without a reason, such as a locked key without a lock, its proof is left whole:
/// without the proof, any event would look like that.
#[must_use]
pub fn shrink(history: &History, violation: &Violation, limits: &Limits) -> History {
    let mut shrunk = concerned(history, violation);
    if !breaks(&shrunk, violation, limits) {
        shrunk = history.clone();
    }
    let is_proof = |operation: &Operation| {
        violation
            .proof
            .iter()
            .any(|it| (&it.process, it.number) == (&operation.process, operation.number))
    };
    let keeps_proof = matches!(
        violation.invariant,
        Invariant::OverForGood | Invariant::NoLostUpdate | Invariant::BackInTime
    );
    let mut size = shrunk.operations.len().max(1);
    loop {
        let mut start = 0;
        let before = shrunk.operations.len();
        while start < shrunk.operations.len() {
            let end = (start + size).min(shrunk.operations.len());
            let mut fewer = shrunk.clone();
            let mut index = 0;
            fewer.operations.retain(|operation| {
                index += 1;
                let is_left_out = (start + 1..=end).contains(&index);
                !is_left_out || keeps_proof && is_proof(operation)
            });
            if fewer.operations.len() < shrunk.operations.len() && breaks(&fewer, violation, limits)
            {
                shrunk = fewer;
            } else {
                start = end;
            }
        }
        if size == 1 && shrunk.operations.len() == before {
            break;
        }
        size = (size / 2).max(1);
    }
    shrunk
}

fn breaks(history: &History, violation: &Violation, limits: &Limits) -> bool {
    let found = check(history, limits);
    found.iter().any(|found| match violation.invariant {
        // The same operation shows the violation.
        Invariant::OverForGood | Invariant::BackInTime => {
            found.invariant == violation.invariant
                && found.proof.last() == violation.proof.last()
                && found.proof.len() >= violation.proof.len().min(2)
        }
        _ => found.invariant == violation.invariant,
    })
}

/// The operations on keys, locks and registers of the proof, and all events that are no operations.
fn concerned(history: &History, violation: &Violation) -> History {
    if violation.proof.is_empty() {
        return history.clone();
    }
    let mut names: HashSet<String> = violation.proof.iter().flat_map(names).collect();
    // The lock ids of acquires of these keys.
    for operation in &history.operations {
        if let Call::Acquire { key, lock, .. } = &operation.call
            && names.contains(key)
        {
            names.insert(lock.clone());
        }
    }
    let operations = history.operations.iter();
    let operations = operations.filter(|it| self::names(it).iter().any(|it| names.contains(it)));
    let notes = history.notes.iter().filter(|(_, note)| match note {
        Entry::Register { register, .. } => names.contains(register),
        _ => true,
    });
    History { operations: operations.cloned().collect(), notes: notes.cloned().collect() }
}

fn names(operation: &Operation) -> Vec<String> {
    let mut names = match &operation.call {
        Call::Acquire { key, lock, .. } => vec![key.clone(), lock.clone()],
        Call::Release { lock } | Call::Extend { lock, .. } | Call::LookupLock { lock } => {
            vec![lock.clone()]
        }
        Call::IsLocked { key } | Call::LookupKey { key } => vec![key.clone()],
        Call::Claim { register, .. } | Call::Write { register, .. } => vec![register.clone()],
    };
    if let Some(Answer::Found { lock, .. }) = operation.answer() {
        names.push(lock.clone());
    }
    names
}
