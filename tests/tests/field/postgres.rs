//! PostgreSQL.

mod connections;
mod lasting;
