//! The end of a lock.

use super::super::locks::{Grant, Lock, by_key};
use super::super::{Answer, Moment, Operation};
use super::{Invariant, Violation};

pub(super) fn released_once(locks: &[Lock<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for lock in locks {
        let won = lock.releases.iter().filter(|it| it.answer() == Some(&Answer::Released));
        let won: Vec<&Operation> = won.copied().collect();
        if won.len() > 1 {
            let what = format!("a lock of {:?} was released {} times", lock.key, won.len());
            violations.push(Violation::new(Invariant::ReleasedOnce, what, won));
        }
    }
    violations
}

pub(super) fn over_for_good(locks: &[Lock<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for of_key in by_key(locks) {
        let mut grants: Vec<Grant<'_>> = of_key.iter().filter_map(Lock::grant).collect();
        grants.sort_by_key(|grant| grant.fence);
        let successors = first_answer_from(&grants);
        for lock in of_key {
            // Before it is granted, "not held" says nothing of its end.
            let Some(grant) = lock.grant() else { continue };
            let next = grants.partition_point(|other| other.fence <= grant.fence);
            let taken_over = successors.get(next).copied();
            let Some((over, end)) =
                seen_to_end(lock, grant).into_iter().chain(taken_over).min_by_key(|(at, _)| *at)
            else {
                continue;
            };
            for later in lock.extends.iter().chain(&lock.releases) {
                let succeeded = matches!(
                    later.answer(),
                    // A lock that expires at another time than was expected is held as well.
                    Some(Answer::Extended { .. } | Answer::Mismatch { .. } | Answer::Released)
                );
                if succeeded && over.steady < later.called.steady {
                    let what = format!("a lock of {:?} that was over was held again", lock.key);
                    let proof = [grant.operation, end, later];
                    violations.push(Violation::new(Invariant::OverForGood, what, proof));
                }
            }
        }
    }
    violations
}

/// The first time at which somebody was told that the lock is over.
fn seen_to_end<'a>(lock: &Lock<'a>, grant: Grant<'a>) -> Option<(Moment, &'a Operation)> {
    let told = lock.extends.iter().chain(&lock.releases).filter_map(|operation| {
        let (at, answer) = operation.answered.as_ref()?;
        let over = match answer {
            Answer::Released => true,
            Answer::NotHeld => grant.answered.steady <= operation.called.steady,
            _ => false,
        };
        over.then_some((*at, *operation))
    });
    told.min_by_key(|(at, _)| *at)
}

/// For each of the grants, sorted by fence, the first answer among it and those after it.
fn first_answer_from<'a>(grants: &[Grant<'a>]) -> Vec<(Moment, &'a Operation)> {
    let mut first: Option<(Moment, &Operation)> = None;
    let mut firsts: Vec<_> = grants
        .iter()
        .rev()
        .filter_map(|grant| {
            if first.is_none_or(|(at, _)| grant.answered < at) {
                first = Some((grant.answered, grant.operation));
            }
            first
        })
        .collect();
    firsts.reverse();
    firsts
}
