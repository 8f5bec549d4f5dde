//! Helpers for the tests of several stores.

pub(crate) mod fences;
pub(crate) mod gate;
pub(crate) mod warnings;
pub(crate) mod writers;
