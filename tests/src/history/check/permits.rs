//! What recipes promise: never more than so many, and a word in time.

use std::collections::BTreeMap;

use super::super::locks::Lock;
use super::super::{Entry, History};
use super::{Invariant, Violation};

/// Where processes disagree on the number, as during a roll-out, the largest one counts.
pub(super) fn never_more(history: &History, locks: &[Lock<'_>]) -> Vec<Violation> {
    let mut semaphores: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, note) in &history.notes {
        if let Entry::Semaphore { key, permits } = note {
            let most = semaphores.entry(key).or_default();
            *most = (*most).max(*permits);
        }
    }
    semaphores.into_iter().filter_map(|(key, permits)| too_many(key, permits, locks)).collect()
}

/// The first moment at which there were too many.
fn too_many(key: &str, permits: u64, locks: &[Lock<'_>]) -> Option<Violation> {
    let prefix = format!("{key}:permit:");
    let slots = locks.iter().filter(|lock| lock.key.starts_with(&prefix));
    let mut changes: Vec<_> = slots
        .flat_map(|lock| {
            let spans = lock.relied_on().into_iter();
            spans.flat_map(move |(from, until)| [(from, true, lock), (until, false, lock)])
        })
        .collect();
    // Who ends makes room for who begins.
    changes.sort_by_key(|(at, begins, _)| (*at, *begins));
    let mut holders: Vec<&Lock<'_>> = Vec::new();
    for (at, begins, lock) in changes {
        if !begins {
            let position = holders.iter().position(|holder| holder.id == lock.id);
            position.map(|position| holders.swap_remove(position));
            continue;
        }
        holders.push(lock);
        if holders.len() as u64 > permits {
            let what = format!("{} held {key:?} of {permits} at {at} us", holders.len());
            let proof = holders.iter().flat_map(|lock| lock.acquires.iter().copied());
            return Some(Violation::new(Invariant::PermitsAreCounted, what, proof));
        }
    }
    None
}

pub(super) fn told_in_time(history: &History) -> Vec<Violation> {
    let late = history.notes.iter().filter(|(_, note)| matches!(note, Entry::Told { left: 0 }));
    late.map(|(at, _)| {
        let what = format!("the work of a leader was told at {at:?}, when its time was over");
        Violation::new(Invariant::ToldInTime, what, [])
    })
    .collect()
}
