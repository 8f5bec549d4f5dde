//! The violations found.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::invariant::{Invariant, Violation};
use crate::operation::Operation;

/// The number of kept violations of each invariant; further ones are only counted.
const KEPT: u64 = 100;

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) violations: Vec<Violation>,
    pub(super) count: u64,
    of_each: BTreeMap<Invariant, u64>,
}

impl Found {
    pub(super) fn add(
        &mut self,
        invariant: Invariant,
        what: String,
        proof: impl IntoIterator<Item = Arc<Operation>>,
    ) {
        self.count += 1;
        let of_this = self.of_each.entry(invariant).or_default();
        *of_this += 1;
        if *of_this <= KEPT {
            let proof = proof.into_iter().map(|operation| (*operation).clone()).collect();
            self.violations.push(Violation { invariant, what, proof });
        }
    }
}
