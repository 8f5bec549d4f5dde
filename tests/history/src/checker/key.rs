//! The checker's knowledge of a key.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::stairs::Stairs;
use super::table::Place;
use crate::operation::Operation;

/// The locks of a key, and the facts that outlive them.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: Arc<str>,
    /// The locks that are not forgotten, in the order of their first request.
    pub(super) locks: Vec<Place>,
    /// The locks that a holder relies on, or relied on until a moment ago.
    pub(super) relied: Vec<Place>,
    /// The granted fences.
    pub(super) fences: Stairs,
    /// The owner of each fence.
    pub(super) owners: HashMap<u64, (Arc<str>, Arc<Operation>)>,
    /// The fence whose owner is kept although its lock is forgotten.
    pub(super) former: Vec<u64>,
    /// Forgotten locks that began before the end of others that are not forgotten.
    pub(super) carried: VecDeque<Carried>,
    /// The lock whose life ends last.
    pub(super) longest: Option<Carried>,
    /// Callers that were told that the key is locked while no known lock explained that.
    pub(super) doubtful: Vec<Arc<Operation>>,
    /// The semaphore that this permit belongs to.
    pub(super) semaphore: Option<usize>,
}

/// The rest of a forgotten lock.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    /// The time at which it was forgotten.
    pub(super) forgotten: u64,
    /// Its life by the store's clock.
    pub(super) life: Option<(u64, u64)>,
    /// Its fence, and the time at which its holder was told.
    pub(super) granted: Option<(u64, u64)>,
    pub(super) proof: Arc<Operation>,
}

impl Key {
    pub(super) fn new(name: &str, semaphore: Option<usize>) -> Self {
        Self {
            name: name.into(),
            locks: Vec::new(),
            relied: Vec::new(),
            fences: Stairs::default(),
            owners: HashMap::new(),
            former: Vec::new(),
            carried: VecDeque::new(),
            longest: None,
            doubtful: Vec::new(),
            semaphore,
        }
    }
}
