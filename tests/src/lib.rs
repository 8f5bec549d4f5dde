//! Code that the tests share: sequences of operations to compare backends, futures that are dropped early, and clients of
//! other libraries.

pub mod differential;
pub mod emulator;
pub mod example_record;
pub mod inventory;
pub mod polling;
