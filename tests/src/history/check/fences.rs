//! Fences are unique and grow.

use std::collections::HashMap;

use super::super::locks::{Grant, Lock, by_key};
use super::super::{Answer, Operation};
use super::{Invariant, Violation};

pub(super) fn grow(locks: &[Lock<'_>]) -> Vec<Violation> {
    by_key(locks).flat_map(|of_key| [repeated(of_key), backwards(of_key)].concat()).collect()
}

/// One fence for each lock id, and one lock id for each fence.
fn repeated(of_key: &[Lock<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut owners: HashMap<u64, (&str, &Operation)> = HashMap::new();
    for lock in of_key {
        let mut own: Option<(u64, &Operation)> = None;
        for operation in lock.acquires.iter().chain(&lock.sightings) {
            let Some(Answer::Acquired { fence, .. } | Answer::Found { fence, .. }) =
                operation.answer()
            else {
                continue;
            };
            let (first, before) = *own.get_or_insert((*fence, operation));
            if first != *fence {
                let what =
                    format!("one lock of {:?} with two fences, {first} and {fence}", lock.key);
                let proof = [before, operation];
                violations.push(Violation::new(Invariant::FencesGrow, what, proof));
            }
            let (owner, before) = *owners.entry(*fence).or_insert((lock.id, operation));
            if owner != lock.id {
                let what = format!("two locks of {:?} with the fence {fence}", lock.key);
                let proof = [before, operation];
                violations.push(Violation::new(Invariant::FencesGrow, what, proof));
            }
        }
    }
    violations
}

/// Whoever asks after another was granted the key gets a higher fence.
fn backwards(of_key: &[Lock<'_>]) -> Vec<Violation> {
    let mut by_call: Vec<Grant<'_>> = of_key.iter().filter_map(Lock::grant).collect();
    let mut by_answer = by_call.clone();
    by_call.sort_by_key(|grant| grant.operation.called);
    by_answer.sort_by_key(|grant| grant.answered);
    let mut answered = by_answer.into_iter().peekable();
    let mut highest: Option<Grant<'_>> = None;
    let mut violations = Vec::new();
    for grant in by_call {
        let earlier = |before: &Grant<'_>| before.answered.steady < grant.operation.called.steady;
        while let Some(before) = answered.next_if(earlier) {
            if highest.is_none_or(|highest| highest.fence < before.fence) {
                highest = Some(before);
            }
        }
        if let Some(before) = highest.filter(|before| before.fence > grant.fence) {
            let what = format!("the fence {} was granted after {}", grant.fence, before.fence);
            let proof = [before.operation, grant.operation];
            violations.push(Violation::new(Invariant::FencesGrow, what, proof));
        }
    }
    violations
}
