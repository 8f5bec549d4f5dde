//! A connection on loan from the pool.

use std::sync::Arc;
use std::time::Instant;

use deadpool_postgres::{Client, Object};
use syncguard_core::LockError;
use tokio::sync::OwnedSemaphorePermit;

use crate::busy::BusyConnections;
use crate::statements::Statement;

/// A borrowed connection. If it is dropped without [`give_back`](Self::give_back) or [`close`](Self::close), its
/// statement may still be under way, and [`BusyConnections`] waits for the answer.
pub(crate) struct Connection<'a> {
    client: Option<Client>,
    /// The turn of a contender.
    turn: Option<OwnedSemaphorePermit>,
    busy: &'a Arc<BusyConnections>,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(
        client: Client,
        turn: Option<OwnedSemaphorePermit>,
        busy: &'a Arc<BusyConnections>,
    ) -> Self {
        Self { client: Some(client), turn, busy }
    }

    pub(crate) fn client(&self) -> Result<&Client, LockError> {
        self.client
            .as_ref()
            .ok_or_else(|| LockError::internal("a connection was used after its return"))
    }

    /// True if the connection was in the pool since it was opened.
    pub(crate) fn was_used_before(&self) -> bool {
        self.client.as_ref().is_some_and(|client| Object::metrics(client).recycled.is_some())
    }

    /// When the connection was opened.
    pub(crate) fn opened_at(&self) -> Option<Instant> {
        self.client.as_ref().map(|client| Object::metrics(client).created)
    }

    /// When the connection was taken from the pool, or opened.
    pub(crate) fn taken_at(&self) -> Option<Instant> {
        let metrics = Object::metrics(self.client.as_ref()?);
        Some(metrics.recycled.unwrap_or(metrics.created))
    }

    /// Forgets a prepared statement, so that it is prepared anew when it is next sent.
    pub(crate) fn forget(&self, statement: &Statement) {
        if let Some(client) = &self.client {
            client.statement_cache.remove(&statement.sql, statement.types);
        }
    }

    /// Gives the connection back to the pool: it has answered.
    pub(crate) fn give_back(mut self) {
        drop(self.client.take());
    }

    /// Closes a connection that is broken, or in a state that no other user should meet.
    pub(crate) fn close(mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.busy.take_over(client, self.turn.take());
        }
    }
}
