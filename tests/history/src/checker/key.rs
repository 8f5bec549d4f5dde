//! What is known of one key.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::stairs::Stairs;
use super::table::Place;
use crate::operation::Operation;

/// The locks of a key, and what outlives them.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: Arc<str>,
    /// Those that are not forgotten, in the order in which they were asked for.
    pub(super) locks: Vec<Place>,
    /// Those that somebody relies on, or did a moment ago.
    pub(super) relied: Vec<Place>,
    /// The fences that were granted.
    pub(super) fences: Stairs,
    /// Whose fence it is.
    pub(super) owners: HashMap<u64, (Arc<str>, Arc<Operation>)>,
    /// The fence whose owner is kept, though its lock is forgotten.
    pub(super) former: Vec<u64>,
    /// Locks that are forgotten, and began before others had ended that are not.
    pub(super) carried: VecDeque<Carried>,
    /// The one whose life ends last.
    pub(super) longest: Option<Carried>,
    /// Who was told that it is locked, when no lock was known that could have been meant.
    pub(super) doubtful: Vec<Arc<Operation>>,
    /// Whose permit it is.
    pub(super) semaphore: Option<usize>,
}

/// What is left of a lock.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    /// When it was forgotten.
    pub(super) forgotten: u64,
    /// By the store's clock.
    pub(super) life: Option<(u64, u64)>,
    /// Its fence, and when its holder was told.
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
