//! The calls and answers of a run, and the rules that must hold in spite of all faults.
//!
//! Each process writes its part while it runs, one line of JSON for each event, so a SIGKILL loses only the call in
//! progress. A [`Checker`] takes the lines as they come, checks them against the twelve invariants, and forgets locks
//! that are over, so a run can have any length. [`History`] is a whole run, and [`check`] feeds it to a checker. A run
//! without faults proves little: [`Floors`] says what a run must have done. [`shrink`] reduces a history with a
//! violation to the few operations that show it.

#![allow(missing_docs, reason = "most names say what the item is")]

mod checker;
mod counts;
mod event;
mod floors;
mod history;
mod invariant;
mod operation;
mod random;
mod recorder;
mod recording;
mod shrink;
mod using;

pub use checker::{Checker, Retained, Verdict};
pub use counts::Counts;
pub use event::{Answer, Call, Entry, Fault, Line, Moment};
pub use floors::Floors;
pub use history::{History, check};
pub use invariant::{Invariant, Limits, Violation};
pub use operation::Operation;
pub use random::Random;
pub use recorder::{Clock, Pending, Recorder};
pub use recording::Recording;
pub use shrink::shrink;
pub use using::Using;

#[cfg(test)]
mod tests;
