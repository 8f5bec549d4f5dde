//! One holder at a time by the clocks of the holders, and no more holders of a semaphore than its permits.

use std::collections::HashMap;

use super::found::Found;
use super::locks::Locks;
use super::table::{Place, Table};
use crate::invariant::Invariant;

/// Two holders began to overlap. This is certain once the time has passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Suspect {
    Two { at: u64, one: Place, other: Place },
    TooMany { at: u64, semaphore: usize },
}

/// Semaphores, by their key.
#[derive(Debug, Default)]
pub(super) struct Semaphores {
    names: HashMap<String, usize>,
    all: Vec<Semaphore>,
}

#[derive(Debug, Default)]
struct Semaphore {
    name: String,
    /// If processes disagree, as during a roll-out, the largest number counts. `None` before a process has named a
    /// number.
    permits: Option<u64>,
    relied: Vec<Place>,
    /// Reported once.
    is_reported: bool,
}

impl Semaphores {
    pub(super) fn has(&mut self, name: &str, permits: u64) {
        let index = self.index(name);
        let most = self.all[index].permits.get_or_insert(permits);
        *most = permits.max(*most);
    }

    /// The semaphore of this key.
    pub(super) fn of_permit(&mut self, key: &str) -> Option<usize> {
        let (name, _) = key.split_once(":permit:")?;
        Some(self.index(name))
    }

    fn index(&mut self, name: &str) -> usize {
        *self.names.entry(name.to_owned()).or_insert_with(|| {
            self.all.push(Semaphore { name: name.to_owned(), ..Semaphore::default() });
            self.all.len() - 1
        })
    }
}

impl Locks {
    /// A holder relies on a lock from now on.
    pub(super) fn relies(&mut self, place: Place, at: u64) {
        let Self { table, keys, semaphores, suspects, .. } = self;
        let Some(lock) = table.get(place) else { return };
        let key = &mut keys[lock.key];
        still_relied(&mut key.relied, table, at);
        let others = key.relied.iter().filter(|other| **other != place);
        suspects.extend(others.map(|other| Suspect::Two { at, one: *other, other: place }));
        if !key.relied.contains(&place) {
            key.relied.push(place);
        }
        if let Some(index) = key.semaphore {
            let semaphore = &mut semaphores.all[index];
            still_relied(&mut semaphore.relied, table, at);
            if !semaphore.relied.contains(&place) {
                semaphore.relied.push(place);
            }
            if semaphore.is_too_full(semaphore.relied.len()) {
                suspects.push(Suspect::TooMany { at, semaphore: index });
            }
        }
    }

    /// Judges the suspects whose time has passed, because all events until then are known.
    pub(super) fn confirm(&mut self, found: &mut Found) {
        let Self { table, keys, semaphores, suspects, .. } = self;
        for suspect in suspects.drain(..) {
            match suspect {
                Suspect::Two { at, one, other } => {
                    let (Some(one), Some(other)) = (table.get(one), table.get(other)) else {
                        continue;
                    };
                    if one.is_relied_on(at) && other.is_relied_on(at) {
                        let (key, spans) = (&keys[one.key].name, [one.span(), other.span()]);
                        let what =
                            format!("two relied on {key:?}, {} and {} us", spans[0], spans[1]);
                        let proof = one.proof().chain(other.proof());
                        found.add(Invariant::HoldersTakeTurns, what, proof);
                    }
                }
                Suspect::TooMany { at, semaphore } => {
                    let semaphore = &mut semaphores.all[semaphore];
                    let holders = semaphore.relied.iter().filter_map(|place| table.get(*place));
                    let holders: Vec<_> = holders.filter(|lock| lock.is_relied_on(at)).collect();
                    if semaphore.is_too_full(holders.len()) && !semaphore.is_reported {
                        semaphore.is_reported = true;
                        let (name, permits) = (&semaphore.name, semaphore.permits.unwrap_or(0));
                        let what =
                            format!("{} held {name:?} of {permits} at {at} us", holders.len());
                        let proof = holders.iter().flat_map(|lock| lock.proof());
                        found.add(Invariant::PermitsAreCounted, what, proof);
                    }
                }
            }
        }
    }
}

impl Semaphore {
    fn is_too_full(&self, holders: usize) -> bool {
        self.permits.is_some_and(|permits| holders as u64 > permits)
    }
}

fn still_relied(places: &mut Vec<Place>, table: &Table, at: u64) {
    places.retain(|place| table.get(*place).is_some_and(|lock| lock.is_relied_on(at)));
}
