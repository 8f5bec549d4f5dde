//! Nobody waits for longer than he must.

use std::collections::HashMap;

use syncguard::TIME_TOLERANCE;

use super::super::locks::{Lock, by_key};
use super::super::{Answer, Call, Entry, Fault, History, Moment, Operation};
use super::{Invariant, Limits, Violation, micros};

/// Whoever was told that a key is locked was told so because of a lock that could still live.
pub(super) fn orphans_go(history: &History, locks: &[Lock<'_>], limits: &Limits) -> Vec<Violation> {
    let ends = ends(history);
    let mut violations = Vec::new();
    for of_key in by_key(locks) {
        let key = of_key[0].key;
        let window = |lock| could_live(lock, &ends, limits).map(|it| (it, lock));
        let mut windows: Vec<((u64, u64), &Lock<'_>)> = of_key.iter().filter_map(window).collect();
        windows.sort_by_key(|(window, _)| *window);
        let mut latest = 0_u64;
        // The latest end among the windows up to each.
        let until: Vec<u64> = windows
            .iter()
            .map(|((_, until), _)| {
                latest = latest.max(*until);
                latest
            })
            .collect();
        for operation in history.operations.iter().filter(|it| was_told_locked(it, key)) {
            let (called, answered) = span(operation);
            let begun = windows.partition_point(|((from, _), _)| *from <= answered);
            if until[..begun].last().is_some_and(|until| called <= *until) {
                continue;
            }
            let what = format!("{key:?} was locked, and no lock could still be live");
            let last = windows[..begun].iter().max_by_key(|((_, until), _)| *until);
            let proof = last.into_iter().flat_map(|(_, lock)| {
                lock.acquires.iter().chain(&lock.extends).chain(&lock.releases).copied()
            });
            let proof = proof.chain([operation]);
            violations.push(Violation::new(Invariant::BackInTime, what, proof));
        }
    }
    violations
}

fn was_told_locked(operation: &Operation, of: &str) -> bool {
    match (&operation.call, operation.answer()) {
        (Call::Acquire { key, .. }, Some(Answer::Locked))
        | (Call::IsLocked { key }, Some(Answer::Is(true)))
        | (Call::LookupKey { key }, Some(Answer::Found { .. })) => key == of,
        _ => false,
    }
}

fn span(operation: &Operation) -> (u64, u64) {
    let called = operation.called.steady;
    (called, operation.answered.as_ref().map_or(called, |(at, _)| at.steady))
}

/// When each process was gone.
type Ends<'a> = HashMap<&'a str, u64>;

fn ends(history: &History) -> Ends<'_> {
    let ends = history.notes.iter().filter_map(|(at, note)| match note {
        Entry::Ended { process } => Some((process.as_str(), at.steady)),
        _ => None,
    });
    ends.collect()
}

/// From when until when a lock can have been live, in microseconds; `None` if it was never granted.
fn could_live(lock: &Lock<'_>, ends: &Ends<'_>, limits: &Limits) -> Option<(u64, u64)> {
    let late = micros(TIME_TOLERANCE + limits.orphan);
    // The end of a life that began with this operation, and whether it can have begun at all.
    let lives = |operation: &Operation, ttl: u64| {
        let (called, mut known) = span(operation);
        if operation.is_unknown() {
            // Whoever was stopped first and killed then may have sent it in between.
            let ended = ends.get(operation.process.as_str()).copied().unwrap_or(called);
            let gone = if operation.answered.is_some() { known } else { called.max(ended) };
            known = gone + micros(limits.in_flight);
        } else if !is_granted(operation) {
            return None;
        }
        Some(known + ttl * 1000 + late)
    };
    let acquires = lock.acquires.iter().filter_map(|operation| match operation.call {
        Call::Acquire { ttl, .. } => Some((operation.called.steady, lives(operation, ttl)?)),
        _ => None,
    });
    let (from, until) = acquires.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    let extended = lock.prolonged().filter_map(|it| lives(it.operation, it.ttl));
    let until = extended.fold(until, u64::max);
    let released = lock.releases.iter().filter_map(|release| match release.answered {
        Some((at, Answer::Released)) => Some(at.steady),
        _ => None,
    });
    Some((from, released.fold(until, u64::min)))
}

fn is_granted(operation: &Operation) -> bool {
    matches!(operation.answer(), Some(Answer::Acquired { .. } | Answer::Extended { .. }))
}

/// After each fault somebody is served in time, if anybody asks.
pub(super) fn faults_heal(history: &History, limits: &Limits) -> Vec<Violation> {
    let mut violations = Vec::new();
    let healed = history.notes.iter().filter(|(_, note)| *note == Entry::Healed);
    for (healed, _) in healed {
        let (healed, limit) = (healed.steady, micros(limits.outage));
        // Then nobody can be served, and the time counts from its end.
        let stopped = |(at, note): &(Moment, Entry)| {
            *note == Entry::Fault(Fault::ServerStopped)
                && (healed..=healed + limit).contains(&at.steady)
        };
        if history.notes.iter().any(stopped) {
            continue;
        }
        let asked = history.operations.partition_point(|it| it.called.steady < healed);
        let asked: Vec<&Operation> = history.operations[asked..]
            .iter()
            .filter(|it| is_about_a_lock(it))
            .take_while(|it| it.called.steady <= healed + limit)
            .collect();
        let in_time = |operation: &&&Operation| span(operation).1 <= healed + limit;
        let served = asked.iter().filter(in_time).any(|it| is_served(it));
        if !served && !asked.is_empty() {
            let what =
                format!("no service within {:?} after the fault of {healed} us", limits.outage);
            let proof = asked.into_iter().take(5);
            violations.push(Violation::new(Invariant::BackInTime, what, proof));
        }
    }
    violations
}

fn is_about_a_lock(operation: &Operation) -> bool {
    !matches!(operation.call, Call::Claim { .. } | Call::Write { .. })
}

fn is_served(operation: &Operation) -> bool {
    let answer = operation.answer();
    is_about_a_lock(operation)
        && !matches!(answer, None | Some(Answer::Failed { .. } | Answer::Dropped))
}

impl History {
    /// The longest time from the end of a fault to the answer of the first call made after it that
    /// was served, in milliseconds.
    #[must_use]
    pub fn longest_outage_ms(&self) -> u64 {
        let healed = self.notes.iter().filter(|(_, note)| *note == Entry::Healed);
        let outages = healed.filter_map(|(healed, _)| {
            let after = self.operations.partition_point(|it| it.called < *healed);
            let served = self.operations[after..].iter().filter(|it| is_served(it));
            Some(served.map(|it| span(it).1).min()? - healed.steady)
        });
        outages.max().unwrap_or_default() / 1000
    }
}
