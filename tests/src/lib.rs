//! What the tests share: histories and the rules they are checked against, a backend that records
//! itself, the fleet that increments counters, sequences of operations to compare backends by, and
//! futures that are dropped on the way.

pub mod differential;
pub mod fleet;
pub mod inventory;
pub mod polling;
pub mod register;
