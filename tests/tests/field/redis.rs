//! Redis.

mod full;
mod lost_counters;
mod missing_commands;
mod records;
