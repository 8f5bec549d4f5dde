//! What the tests share: the fleet that increments counters, sequences of operations to compare
//! backends by, and futures that are dropped on the way.

pub mod differential;
pub mod fleet;
pub mod inventory;
pub mod polling;
pub mod register;
