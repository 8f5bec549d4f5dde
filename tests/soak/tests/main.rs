//! The soak, in short.

mod bounded;
#[path = "../src/kind.rs"]
#[allow(dead_code, reason = "the tests need the names alone")]
mod kind;
mod names;
