//! A connection on loan from the pool.

use std::sync::Arc;

use deadpool_postgres::{Client, Object};
use syncguard_core::LockError;
use tokio::sync::OwnedSemaphorePermit;

use crate::drain::Drain;
use crate::statements::Statement;

/// A borrowed connection. Dropped without [`give_back`](Self::give_back) or [`close`](Self::close) it
/// may be in the middle of a conversation, and is drained.
pub(crate) struct Connection<'a> {
    client: Option<Client>,
    /// The turn of a contender.
    turn: Option<OwnedSemaphorePermit>,
    drain: &'a Arc<Drain>,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(
        client: Client,
        turn: Option<OwnedSemaphorePermit>,
        drain: &'a Arc<Drain>,
    ) -> Self {
        Self { client: Some(client), turn, drain }
    }

    pub(crate) fn client(&self) -> Result<&Client, LockError> {
        self.client
            .as_ref()
            .ok_or_else(|| LockError::internal("a connection was used after its return"))
    }

    /// Whether it has been in the pool since it was opened.
    pub(crate) fn was_used_before(&self) -> bool {
        self.client.as_ref().is_some_and(|client| Object::metrics(client).recycled.is_some())
    }

    /// Has a statement prepared anew when it is next sent.
    pub(crate) fn forget(&self, statement: &Statement) {
        if let Some(client) = &self.client {
            client.statement_cache.remove(&statement.sql, statement.types);
        }
    }

    /// To the pool: it has answered.
    pub(crate) fn give_back(mut self) {
        drop(self.client.take());
    }

    /// It is broken, or in a state that nobody else should meet.
    pub(crate) fn close(mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.drain.take_over(client, self.turn.take());
        }
    }
}
