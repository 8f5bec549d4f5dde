//! Code that all benchmarks share.
//!
//! `--check` ends a benchmark with an error if it misses a target. A target is a ratio to something measured in
//! the same run, or a count, since absolute times depend on the machine. What has no target is printed beside what
//! it is compared with. `--seconds` sets the time of a round or a row.

pub mod clients;
pub mod clock;
mod commands;
mod cycles;
pub mod firestore;
mod locks;
mod options;
mod report;
pub mod sorted;

pub use commands::Counter;
pub use cycles::{Table, Way, cycle, median};
pub use locks::Lock;
pub use options::Options;
pub use report::{Report, folder};
