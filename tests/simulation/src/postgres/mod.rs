//! PostgreSQL: the backend `syncguard-postgres` with its driver and its pool, over streams in memory, and a server.
//!
//! The server's side of the protocol is in `session.rs`. `statements.rs` recognizes a statement by parts of its text,
//! and `tables` does what it does: that alone is written by hand, and the tests `differential` compare it.

mod array;
mod session;
mod statements;
mod stream;
mod streams;
mod tables;

use std::sync::Arc;

use syncguard_postgres::{PostgresBackend, PostgresOptions, simulated};

pub(crate) use self::streams::Streams;
pub(crate) use self::tables::Tables;

use crate::link::Link;

/// The backend of a process.
pub(crate) fn backend(link: &Arc<Link>, is_pooled: bool) -> PostgresBackend {
    let (link, bound) = (Arc::clone(link), link.bound);
    let options = PostgresOptions::new()
        .with_pool_size(4)
        .with_connect_timeout(bound)
        .with_pool_wait_timeout(bound)
        .with_statement_timeout(bound)
        .with_unprepared_statements(is_pooled);
    let backend = simulated::over(&options, move || Box::new(streams::open(&link)));
    backend.expect("a backend")
}
