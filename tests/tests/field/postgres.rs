//! PostgreSQL.

mod tables;
