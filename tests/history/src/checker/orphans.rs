//! A caller that was told that a key is locked was told so because of a lock that could still be live.

use std::sync::Arc;

use super::found::Found;
use super::locks::Locks;
use super::{PATIENCE, micros};
use crate::event::Call;
use crate::invariant::Invariant;
use crate::operation::Operation;

/// The verdict on such a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Known,
    /// An operation in progress may turn out to be the reason.
    Possible,
    None,
}

impl Locks {
    pub(super) fn told_locked(
        &mut self,
        name: &str,
        operation: &Arc<Operation>,
        found: &mut Found,
    ) {
        let key = self.key(name);
        match self.reason(key, operation) {
            Reason::Known => {}
            Reason::Possible => self.keys[key].doubtful.push(Arc::clone(operation)),
            Reason::None => self.nobody(key, operation, found),
        }
    }

    /// Examines the open cases again.
    pub(super) fn doubt(&mut self, is_over: bool, found: &mut Found) {
        let mut keys = std::mem::take(&mut self.doubts);
        if is_over {
            keys = (0..self.keys.len()).collect();
        }
        for key in keys {
            for operation in std::mem::take(&mut self.keys[key].doubtful) {
                let patient = self.now.saturating_sub(micros(PATIENCE));
                match self.reason(key, &operation) {
                    Reason::Known => {}
                    Reason::Possible if !is_over && operation.over_at() >= patient => {
                        self.keys[key].doubtful.push(operation);
                    }
                    _ => self.nobody(key, &operation, found),
                }
            }
        }
    }

    fn reason(&self, key: usize, operation: &Operation) -> Reason {
        let (called, answered) = (operation.called.steady, operation.over_at());
        let mut reason = Reason::None;
        // The newest lock is the likeliest.
        for place in self.keys[key].locks.iter().rev() {
            let Some(lock) = self.table.get(*place) else { continue };
            if matches!(&operation.call, Call::Acquire { lock: own, .. } if **own == *lock.id) {
                continue;
            }
            if lock.could_live().is_some_and(|(from, until)| from <= answered && called <= until) {
                return Reason::Known;
            }
            if lock.open.iter().any(|open| open.called <= answered) {
                reason = Reason::Possible;
            }
        }
        reason
    }

    fn nobody(&self, key: usize, operation: &Arc<Operation>, found: &mut Found) {
        let key = &self.keys[key];
        let what = format!("{:?} was locked, and no lock could still be live", key.name);
        let locks = key.locks.iter().filter_map(|place| self.table.get(*place));
        let last = locks.max_by_key(|lock| lock.could_live().map(|(_, until)| until));
        let proof: Vec<_> = match (last, key.carried.back()) {
            (Some(last), _) => last.proof().collect(),
            (None, Some(carried)) => vec![Arc::clone(&carried.proof)],
            (None, None) => Vec::new(),
        };
        let proof = proof.into_iter().chain([Arc::clone(operation)]);
        found.add(Invariant::BackInTime, what, proof);
    }
}
