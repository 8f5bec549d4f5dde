//! Code that the tests share: sequences of operations to compare backends, futures that are dropped early, clients of
//! other libraries, and ticks beside wrong clocks.

pub mod differential;
pub mod emulator;
pub mod example_record;
pub mod inventory;
pub mod labels;
pub mod polling;
pub mod ticks;
