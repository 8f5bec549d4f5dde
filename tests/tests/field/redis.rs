//! Redis.

mod full;
mod lists;
mod lost_counters;
mod missing_commands;
mod moved;
mod pauses;
mod records;
mod refused;
mod tools;

/// Only `cargo xtask test --full` runs these.
mod long {
    mod lasting;
}
