//! Nobody waits for longer than he must.

use syncguard::TIME_TOLERANCE;

use super::super::locks::{Lock, Prolonged, by_key};
use super::super::{Answer, Call, Entry, History, Operation};
use super::{Invariant, Limits, Violation, micros};

/// Whoever was told that a key is locked was told so because of a lock that could still live.
pub(super) fn orphans_go(history: &History, locks: &[Lock<'_>], limits: &Limits) -> Vec<Violation> {
    let mut violations = Vec::new();
    for of_key in by_key(locks) {
        let key = of_key[0].key;
        let mut windows: Vec<_> = of_key
            .iter()
            .filter_map(|lock| could_live(lock, limits).map(|it| (it, lock)))
            .collect();
        windows.sort_by_key(|((from, _), _)| *from);
        // The latest end among all windows up to each.
        let latest: Vec<u64> = windows
            .iter()
            .scan(0, |latest, ((_, until), _)| {
                *latest = until.max(latest).to_owned();
                Some(*latest)
            })
            .collect();
        for operation in &history.operations {
            let Some(own) = told_locked(operation, key) else { continue };
            let (called, answered) = span(operation);
            let begun = windows.partition_point(|((from, _), _)| *from <= answered);
            // Its own windows explain nothing; a lock id is asked for by one caller, so there is
            // no need to be quick about those.
            let explained = latest[..begun].last().is_some_and(|until| *until >= called)
                && windows[..begun]
                    .iter()
                    .rev()
                    .any(|((_, until), lock)| *until >= called && Some(lock.id) != own);
            if !explained {
                let what = format!("{key:?} was locked, and no lock could still be live");
                let before = windows[..begun].iter().max_by_key(|((_, until), _)| *until);
                let lock = before.into_iter().flat_map(|(_, lock)| {
                    lock.acquires.iter().chain(&lock.extends).chain(&lock.releases).copied()
                });
                violations.push(Violation::new(
                    Invariant::BackInTime,
                    what,
                    lock.chain([operation]),
                ));
            }
        }
    }
    violations
}

/// If an operation was told that the key is locked: the lock id it had itself, if any.
fn told_locked<'a>(operation: &'a Operation, of: &str) -> Option<Option<&'a str>> {
    match (&operation.call, operation.answer()?) {
        (Call::Acquire { key, lock, .. }, Answer::Locked) if key == of => Some(Some(lock)),
        (Call::IsLocked { key }, Answer::Is(true)) if key == of => Some(None),
        (Call::LookupKey { key }, Answer::Found { .. }) if key == of => Some(None),
        _ => None,
    }
}

fn span(operation: &Operation) -> (u64, u64) {
    let called = operation.called.steady;
    (called, operation.answered.as_ref().map_or(called, |(at, _)| at.steady))
}

/// From when until when a lock can have been live, in microseconds; `None` if it was never granted.
fn could_live(lock: &Lock<'_>, limits: &Limits) -> Option<(u64, u64)> {
    let late = micros(TIME_TOLERANCE + limits.orphan);
    let in_flight = micros(limits.in_flight);
    // The end of a life that began with this operation, and whether it can have begun at all.
    let lives = |operation: &Operation, ttl: u64| {
        let (_, answered) = span(operation);
        let granted =
            matches!(operation.answer(), Some(Answer::Acquired { .. } | Answer::Extended { .. }));
        let begun = match (granted, operation.is_unknown()) {
            (true, _) => answered,
            (false, true) => answered + in_flight,
            (false, false) => return None,
        };
        Some(begun + ttl * 1000 + late)
    };
    let acquires = lock.acquires.iter().filter_map(|operation| match operation.call {
        Call::Acquire { ttl, .. } => Some((operation.called.steady, lives(operation, ttl)?)),
        _ => None,
    });
    let (from, until) = acquires.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    let extended =
        lock.prolonged().filter_map(|Prolonged { operation, ttl }| lives(operation, ttl));
    let until = extended.fold(until, u64::max);
    let released = lock.releases.iter().filter_map(|release| match release.answered {
        Some((at, Answer::Released)) => Some(at.steady),
        _ => None,
    });
    Some((from, released.fold(until, u64::min)))
}

/// After each fault somebody is served in time, if anybody asks.
pub(super) fn faults_heal(history: &History, limits: &Limits) -> Vec<Violation> {
    let mut violations = Vec::new();
    let healed = history.notes.iter().filter(|(_, note)| *note == Entry::Healed);
    for (healed, _) in healed {
        let (healed, limit) = (healed.steady, micros(limits.outage));
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
