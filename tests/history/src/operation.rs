//! One operation, as its caller saw it.

use crate::event::{Answer, Call, Moment};

/// One operation, as its caller saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who called.
    pub process: String,
    /// Which of the caller's operations it is.
    pub number: u64,
    /// What was asked.
    pub call: Call,
    /// When it was asked.
    pub called: Moment,
    /// What was answered, and when. `None` if the caller did not live to see it.
    pub answered: Option<(Moment, Answer)>,
}

impl Operation {
    /// The answer, if there is one.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// Whether nobody knows if it was carried out.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self.answer() {
            None | Some(Answer::Dropped) => true,
            // The store is told to undo what was aborted, and nobody waits for that.
            Some(Answer::Failed { unknown, code }) => *unknown || code == "Aborted",
            Some(_) => false,
        }
    }

    /// When it was answered; where it was not, when it was called. In microseconds.
    pub(crate) fn over_at(&self) -> u64 {
        self.answered.as_ref().map_or(self.called.steady, |(at, _)| at.steady)
    }

    /// Whether it is about a lock, and not about a register.
    pub(crate) fn is_about_a_lock(&self) -> bool {
        !matches!(self.call, Call::Claim { .. } | Call::Write { .. })
    }

    /// Whether a store has answered it.
    pub(crate) fn is_served(&self) -> bool {
        let answer = self.answer();
        self.is_about_a_lock()
            && !matches!(answer, None | Some(Answer::Failed { .. } | Answer::Dropped))
    }

    /// The key that its caller was told is locked.
    pub(crate) fn was_told_locked(&self) -> Option<&str> {
        match (&self.call, self.answer()) {
            (Call::Acquire { key, .. }, Some(Answer::Locked))
            | (Call::IsLocked { key }, Some(Answer::Is(true)))
            | (Call::LookupKey { key }, Some(Answer::Found { .. })) => Some(key),
            _ => None,
        }
    }
}
