//! PostgreSQL.

mod attached;
mod connections;
mod tables;

/// Only `cargo xtask test --full` runs these.
mod long {
    mod lasting;
}
