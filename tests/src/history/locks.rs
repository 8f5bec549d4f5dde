//! A history, lock by lock.

use std::collections::BTreeMap;

use super::{Answer, Call, History, Moment, Operation};

/// Everything that was done with one lock id.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    pub(super) id: &'a str,
    pub(super) key: &'a str,
    /// In the order of the calls.
    pub(super) acquires: Vec<&'a Operation>,
    pub(super) releases: Vec<&'a Operation>,
    pub(super) extends: Vec<&'a Operation>,
    /// Lookups that found it.
    pub(super) sightings: Vec<&'a Operation>,
}

/// A lock that somebody was told is his.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant<'a> {
    pub(super) operation: &'a Operation,
    pub(super) answered: Moment,
    pub(super) ttl: u64,
    pub(super) fence: u64,
    pub(super) expires_at: u64,
}

/// When a lock id was asked to live for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prolonged<'a> {
    pub(super) operation: &'a Operation,
    pub(super) ttl: u64,
    expected: Option<u64>,
}

impl Prolonged<'_> {
    /// Whether it may have been carried out after everything that was confirmed: nobody knows its
    /// outcome, and no later extend has made an end of what it expected.
    pub(super) fn may_be_last(&self, lock: &Lock<'_>) -> bool {
        if !self.operation.is_unknown() {
            return false;
        }
        let is_later = |other: &Operation| {
            self.operation.called < other.called
                && matches!(other.answer(), Some(Answer::Extended { .. }))
        };
        self.expected.is_none() || !lock.extends.iter().any(|other| is_later(other))
    }
}

/// All locks of a history, sorted by key.
pub(super) fn locks(history: &History) -> Vec<Lock<'_>> {
    let mut locks: BTreeMap<&str, Lock<'_>> = BTreeMap::new();
    for operation in &history.operations {
        if let Call::Acquire { key, lock, .. } = &operation.call {
            let lock = locks.entry(lock).or_insert_with(|| Lock {
                id: lock,
                key,
                acquires: Vec::new(),
                releases: Vec::new(),
                extends: Vec::new(),
                sightings: Vec::new(),
            });
            lock.acquires.push(operation);
        }
    }
    for operation in &history.operations {
        match &operation.call {
            Call::Release { lock } => {
                if let Some(lock) = locks.get_mut(lock.as_str()) {
                    lock.releases.push(operation);
                }
            }
            Call::Extend { lock, .. } => {
                if let Some(lock) = locks.get_mut(lock.as_str()) {
                    lock.extends.push(operation);
                }
            }
            _ => {}
        }
        if let Some(Answer::Found { lock, .. }) = operation.answer()
            && let Some(lock) = locks.get_mut(lock.as_str())
        {
            lock.sightings.push(operation);
        }
    }
    let mut locks: Vec<_> = locks.into_values().collect();
    locks.sort_by_key(|lock| lock.key);
    locks
}

/// The locks, key by key.
pub(super) fn by_key<'a, 'b>(locks: &'b [Lock<'a>]) -> impl Iterator<Item = &'b [Lock<'a>]> {
    locks.chunk_by(|one, other| one.key == other.key)
}

impl<'a> Lock<'a> {
    /// How its holder learned that it is his.
    pub(super) fn grant(&self) -> Option<Grant<'a>> {
        self.acquires.iter().find_map(|operation| {
            let Call::Acquire { ttl, .. } = operation.call else { return None };
            match operation.answered {
                Some((answered, Answer::Acquired { fence, expires_at })) => {
                    Some(Grant { operation, answered, ttl, fence, expires_at })
                }
                _ => None,
            }
        })
    }

    /// The extends, with what they asked for.
    pub(super) fn prolonged(&self) -> impl Iterator<Item = Prolonged<'a>> {
        self.extends.iter().filter_map(|operation| match operation.call {
            Call::Extend { ttl, expected, .. } => Some(Prolonged { operation, ttl, expected }),
            _ => None,
        })
    }

    /// The times for which its holder relied on it, by his own clock, in microseconds.
    pub(super) fn relied_on(&self) -> Vec<(u64, u64)> {
        let Some(grant) = self.grant() else { return Vec::new() };
        let given_up = self.releases.iter().map(|release| release.called.steady).min();
        let given_up = given_up.unwrap_or(u64::MAX);
        let mut spans = Vec::new();
        let mut from = grant.answered.steady;
        let mut until = grant.operation.called.steady + grant.ttl * 1000;
        for Prolonged { operation, ttl, .. } in self.prolonged() {
            // While an extend is under way the shorter of the two counts.
            let promised = operation.called.steady + ttl * 1000;
            let meanwhile = until.min(promised);
            match operation.answered {
                Some((answered, Answer::Extended { .. })) => {
                    if meanwhile < answered.steady {
                        spans.push((from, meanwhile));
                        from = answered.steady;
                    }
                    until = promised;
                }
                Some((answered, Answer::NotHeld)) => until = meanwhile.min(answered.steady),
                // It has changed nothing.
                Some((_, Answer::Mismatch { .. })) => {}
                _ => until = meanwhile,
            }
        }
        spans.push((from, until));
        for (_, until) in &mut spans {
            *until = given_up.min(*until);
        }
        spans.retain(|(from, until)| from < until);
        spans
    }
}
