//! Code that all benchmarks share: their options, their targets, and the folder of their reports.
//!
//! `--check` ends a benchmark with an error if it misses a target. A target is a ratio to something measured in
//! the same run, or a count, since absolute times depend on the machine. What has no target is printed beside what
//! it is compared with.

mod options;
mod targets;

pub use options::Options;
pub use targets::{Targets, folder};
