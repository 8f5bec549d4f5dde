//! Code that the tests share: calls, futures that are dropped early, and clients of other libraries.

pub mod calls;
pub mod emulator;
pub mod example_record;
pub mod inventory;
pub mod polling;
