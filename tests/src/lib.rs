//! What the tests share: histories and the rules they are checked against, a backend that records
//! itself, the fleet that increments counters, and sequences of operations to compare backends by.

pub mod fleet;
pub mod history;
pub mod random;
pub mod recording;
pub mod register;
pub mod steps;
