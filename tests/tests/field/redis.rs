//! Redis.

mod full;
mod lasting;
mod lists;
mod lost_counters;
mod missing_commands;
mod moved;
mod pauses;
mod records;
mod refused;
mod tools;
