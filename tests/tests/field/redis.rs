//! Redis.

mod full;
mod lists;
mod long;
mod missing_commands;
mod moved;
mod pauses;
mod refused;
mod tools;
