//! Acts on what a failure says about its connection and its server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use deadpool_postgres::Pool;
use syncguard_core::authoring::{FailureSubject, LookLimit};

use crate::connection::Connection;
use crate::error::{Failure, Remedy};
use crate::signals::Signals;

/// Closes connections that may be silent or lead to a server that is none any more. The next statement opens another
/// one, for which names are looked up and lists are tried again.
pub(crate) struct Elsewhere {
    pool: Pool,
    pub(crate) signals: Arc<Signals>,
    looks: LookLimit,
    /// When the backend last looked for another server: older connections lead to the wrong one.
    looked: Mutex<Option<Instant>>,
}

impl Elsewhere {
    pub(crate) fn new(pool: Pool, signals: Signals) -> Self {
        let (signals, looks) = (Arc::new(signals), LookLimit::default());
        Self { pool, signals, looks, looked: Mutex::default() }
    }

    /// Gives the connection back or closes it, and looks for another server if the failure says so.
    pub(crate) fn act_on(&self, failure: &mut Failure, connection: Connection<'_>) {
        if let Remedy::Reconnect { from_pool } = &mut failure.remedy {
            *from_pool = connection.was_used_before();
        }
        match failure.subject {
            FailureSubject::Request => connection.give_back(),
            FailureSubject::Connection if failure.remedy == Remedy::AwaitAnswer => {
                if self.looks.permits() {
                    // The others may be as silent, and each of them would cost a caller its limit.
                    self.close_unused_since(connection.taken_at());
                }
                drop(connection);
            }
            FailureSubject::Connection => connection.close(),
            FailureSubject::Server => {
                if self.looks.permits() {
                    let now = Instant::now();
                    *self.looked() = Some(now);
                    self.close_unused_since(Some(now));
                    self.signals.close();
                    connection.close();
                } else if connection.opened_at() < *self.looked() {
                    connection.close();
                } else {
                    // The last look has found this server, and the next look is not due.
                    failure.remedy = Remedy::Report;
                    connection.give_back();
                }
            }
        }
    }

    /// Closes the connections in the pool that no caller has taken since then.
    fn close_unused_since(&self, time: Option<Instant>) {
        drop(self.pool.retain(|_, metrics| metrics.recycled.or(Some(metrics.created)) > time));
    }

    fn looked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
