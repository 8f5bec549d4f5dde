//! PostgreSQL.

mod connections;
mod lasting;
mod tables;
