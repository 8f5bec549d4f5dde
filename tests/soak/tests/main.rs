//! The soak, in short.

mod bounded;
