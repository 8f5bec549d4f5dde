//! Code that the tests share: the fleet that increments counters, sequences of operations to compare backends, listings
//! of many locks, and futures that are dropped early.

pub mod differential;
pub mod example_record;
pub mod fleet;
pub mod inventory;
pub mod polling;
pub mod register;
