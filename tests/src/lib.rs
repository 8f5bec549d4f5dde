//! Code that the tests share: the fleet that increments counters, sequences of operations to compare backends, futures
//! that are dropped early, and ticks beside wrong clocks.

pub mod differential;
pub mod example_record;
pub mod fleet;
pub mod inventory;
pub mod labels;
pub mod polling;
pub mod register;
pub mod ticks;
