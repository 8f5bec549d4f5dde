//! An operation in the view of its caller.

use crate::event::{Answer, Call, Moment};

/// An operation in the view of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub process: String,
    /// The number of the operation among the caller's.
    pub number: u64,
    pub call: Call,
    pub called: Moment,
    /// The answer and its time. `None` if the caller did not live to see it.
    pub answered: Option<(Moment, Answer)>,
}

impl Operation {
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// Returns true if it is unknown whether the operation was carried out.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self.answer() {
            None | Some(Answer::Dropped) => true,
            // The backend undoes an aborted operation in the background.
            Some(Answer::Failed { unknown, code }) => *unknown || code == "Aborted",
            Some(_) => false,
        }
    }

    /// The time of the answer, or of the call if there is none. In microseconds.
    pub(crate) fn over_at(&self) -> u64 {
        self.answered.as_ref().map_or(self.called.steady, |(at, _)| at.steady)
    }

    /// Returns true for an operation on a lock, and false for one on a register.
    pub(crate) fn is_about_a_lock(&self) -> bool {
        !matches!(self.call, Call::Claim { .. } | Call::Write { .. })
    }

    /// Returns true if a store has answered.
    pub(crate) fn is_served(&self) -> bool {
        let answer = self.answer();
        self.is_about_a_lock()
            && !matches!(answer, None | Some(Answer::Failed { .. } | Answer::Dropped))
    }

    /// The key that the answer reports as locked.
    pub(crate) fn was_told_locked(&self) -> Option<&str> {
        match (&self.call, self.answer()) {
            (Call::Acquire { key, .. }, Some(Answer::Locked))
            | (Call::IsLocked { key }, Some(Answer::Is(true)))
            | (Call::LookupKey { key }, Some(Answer::Found { .. })) => Some(key),
            _ => None,
        }
    }
}
