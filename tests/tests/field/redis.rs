//! Redis.

mod lists;
mod moved;
mod pauses;
mod refused;
mod tools;

#[path = "../postgres/warnings.rs"]
mod warnings;
