//! The lines in which the callers of this process wait, one for each key.
//!
//! The first one of a line contends in the store; the others cost nothing but their place. Whoever
//! ends its wait, in whatever way, passes its turn on: a [`Place`] does so when it is dropped. Whoever
//! gets the lock has a [`Tenure`] until the store has taken it back; then the first one is woken.
//!
//! Nothing here is about safety. Who gets the lock is decided in the store alone, and the first one of
//! a line asks there from time to time whatever the line says.

mod all;
#[cfg(test)]
mod flaws;
mod line;
mod pace;
mod place;
#[cfg(test)]
mod shuttle_tests;
mod tenure;

pub(crate) use self::all::Lines;
pub(super) use self::line::Turn;
pub(super) use self::place::Place;
pub(crate) use self::tenure::Tenure;
