//! What can be wrong with a line: planted by its tests, which have to find it.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// Whoever leaves as the first takes the turn along.
    TurnLostOnDrop,
    /// Whoever comes is the first.
    TwoContenders,
    /// Whoever leaves as the first passes two on.
    TurnGivenTwice,
    /// What happens while the first one goes to sleep is not heard.
    WakeUpLost,
    /// The last one that came is the next.
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
