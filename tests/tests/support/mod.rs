//! What the tests of several stores use.

pub(crate) mod line;
pub(crate) mod warnings;
