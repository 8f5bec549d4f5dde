//! Flaws of a queue: planted by its tests, which have to find them.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// A head that leaves takes the turn along.
    TurnLostOnDrop,
    /// Each newcomer is a head.
    TwoContenders,
    /// A head that leaves passes two turns on.
    TurnGivenTwice,
    /// A ring while the head goes to sleep is not heard.
    WakeUpLost,
    /// The newest waiter is the next head.
    LastFirst,
}

thread_local! {
    // All tasks of one execution run on one thread.
    static PLANTED: Cell<Flaw> = const { Cell::new(Flaw::None) };
}

pub(super) fn plant(flaw: Flaw) {
    PLANTED.set(flaw);
}

pub(super) fn has(flaw: Flaw) -> bool {
    PLANTED.get() == flaw
}
