//! The highest number that was answered before a time.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::operation::Operation;

/// Numbers in the order of their answers, each higher than the number before.
#[derive(Debug, Default)]
pub(super) struct Stairs(VecDeque<(u64, u64, Arc<Operation>)>);

impl Stairs {
    /// Adds a number that is answered now.
    pub(super) fn climb(&mut self, at: u64, number: u64, operation: &Arc<Operation>) {
        if self.highest().is_none_or(|highest| highest < number) {
            self.0.push_back((at, number, Arc::clone(operation)));
        }
    }

    /// The highest number.
    pub(super) fn highest(&self) -> Option<u64> {
        self.0.back().map(|(_, number, _)| *number)
    }

    /// The operation that was answered with a higher number before that time.
    pub(super) fn higher(&self, number: u64, before: u64) -> Option<(u64, &Arc<Operation>)> {
        if self.highest().is_none_or(|highest| highest <= number) {
            return None;
        }
        let earlier = self.0.partition_point(|(at, ..)| *at < before);
        let (_, highest, operation) = self.0.get(earlier.checked_sub(1)?)?;
        (*highest > number).then_some((*highest, operation))
    }

    /// Forgets all times before this one.
    pub(super) fn forget(&mut self, before: u64) {
        while self.0.get(1).is_some_and(|(at, ..)| *at < before) {
            self.0.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
