//! What was called and answered in a run, and the rules that must hold whatever went wrong meanwhile.
//!
//! Each process writes its part as it goes, one line of JSON an event, so that a SIGKILL loses
//! nothing but the call that was under way. A [`Checker`] is fed the lines as they come, holds them
//! against the ten invariants, and forgets what is over: so a run can be of any length.
//! [`Follow`] reads the lines of a folder while they are written. [`History`] is a whole run, and
//! [`check`] feeds it to a checker. A run in which nothing went wrong proves little: [`Floors`] says
//! how much must have happened. [`shrink`] leaves of a history that breaks an invariant the few
//! operations that break it.

mod checker;
mod counts;
mod event;
mod floors;
mod follow;
mod history;
mod invariant;
mod operation;
mod random;
mod recorder;
mod recording;
mod shrink;

pub use checker::{Checker, Retained, Verdict};
pub use counts::Counts;
pub use event::{Answer, Call, Entry, Fault, Line, Moment};
pub use floors::Floors;
pub use follow::Follow;
pub use history::{History, check};
pub use invariant::{Invariant, Limits, Violation};
pub use operation::Operation;
pub use random::Random;
pub use recorder::{Clock, Pending, Recorder};
pub use recording::Recording;
pub use shrink::shrink;

#[cfg(test)]
mod tests;
