//! Clean-up of an acquire with an unknown outcome, at a server that decides.

use std::time::Duration;

use syncguard_core::authoring::cancel::{Settled, Unsettled};
use syncguard_core::{LockError, Timestamp};
use tokio::time::Instant;

use super::served::Served;
use super::{BOUND, Kind, time, unintelligible};
use crate::flaw::Flaw;
use crate::protocol::{Reply, Request};

impl Served {
    pub(super) async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        let Some(deadline) = acquire.deadline else { return Ok(Settled::Done) };
        match self.kind {
            Kind::Postgres => self.settle_statements(acquire, deadline).await,
            Kind::Firestore => Ok(Settled::Done),
        }
    }

    /// The twin of settle.rs of PostgreSQL, with two looks.
    async fn settle_statements(
        &self,
        acquire: &Unsettled,
        deadline: Timestamp,
    ) -> Result<Settled, LockError> {
        const BUSY: Duration = Duration::from_millis(250);
        let (is_alone, now) = self.look(acquire).await?;
        if self.flaw == Some(Flaw::SettledTooSoon) {
            return Ok(Settled::Done);
        }
        if !is_alone {
            return Ok(Settled::NotYet(BUSY));
        }
        if now <= deadline.as_millis() {
            return Ok(Settled::NotYet(self.clock.passes_in(deadline)));
        }
        self.look(acquire).await?;
        Ok(Settled::Done)
    }

    async fn look(&self, acquire: &Unsettled) -> Result<(bool, u64), LockError> {
        let (sent, until) = (Instant::now(), Instant::now() + BOUND);
        let _connection = self.connection(&self.pool, until).await?;
        let request = Request::Settle { key: acquire.key.clone(), id: acquire.lock_id };
        match self.wire.ask(request, until).await? {
            Reply::Look { is_alone, now } => {
                self.clock.learn(sent, time(now)?);
                Ok((is_alone, now))
            }
            _ => Err(unintelligible()),
        }
    }
}
