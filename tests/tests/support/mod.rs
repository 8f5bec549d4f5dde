//! Helpers for the tests of several stores.

pub(crate) mod line;
pub(crate) mod warnings;
pub(crate) mod writers;
