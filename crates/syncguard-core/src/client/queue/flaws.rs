//! Flaws of a queue, which the tests plant and must find.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// A head that leaves does not pass on its turn.
    TurnLostOnDrop,
    /// Each newcomer is a head.
    TwoContenders,
    /// A head that leaves passes on two turns.
    TurnGivenTwice,
    /// A wake-up is lost if it comes while the head goes to sleep.
    WakeUpLost,
    /// The newest waiter is the next head.
    LastFirst,
}

thread_local! {
    // The tasks of one execution all run on one thread.
    static PLANTED: Cell<Flaw> = const { Cell::new(Flaw::None) };
}

pub(super) fn plant(flaw: Flaw) {
    PLANTED.set(flaw);
}

pub(super) fn has(flaw: Flaw) -> bool {
    PLANTED.get() == flaw
}
