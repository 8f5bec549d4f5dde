//! The connection to the store: over the simulated network, or without one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use syncguard_core::{ErrorCode, LockError};
use syncguard_history::Random;
use tokio::time::{Instant, timeout_at};

use super::unavailable;
use crate::hub::Outcome;
use crate::link::Link;
use crate::protocol::{Reply, Request};
use crate::store::Server;

/// A process's connection to the store.
pub(crate) struct Wire {
    way: Way,
    /// True if the server is told of calls without a caller.
    pub(super) cancels: bool,
}

enum Way {
    Net(Arc<Link>),
    /// A server that carries out requests at once, on the machine's time.
    Direct(Mutex<Direct>),
}

struct Direct {
    server: Server,
    random: Random,
    /// True if the next write is held back.
    holds: bool,
    held: Option<Request>,
}

impl Wire {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { way: Way::Net(link), cancels: false }
    }

    pub(super) fn direct(server: Server) -> Self {
        let direct = Direct { server, random: Random::new(1), holds: false, held: None };
        Self { way: Way::Direct(Mutex::new(direct)), cancels: false }
    }

    /// Holds the next write back until it is delivered.
    pub(super) fn hold_next(&self) {
        if let Way::Direct(direct) = &self.way {
            locked(direct).holds = true;
        }
    }

    /// Carries out the held writes, without a caller. Returns true if there were any.
    pub(super) fn deliver(&self) -> bool {
        let Way::Direct(direct) = &self.way else { return false };
        let mut direct = locked(direct);
        let held = direct.held.take();
        held.is_some_and(|request| {
            direct.carry_out(&request);
            true
        })
    }

    /// The process's wall clock, in milliseconds.
    pub(super) fn wall(&self) -> u64 {
        match &self.way {
            Way::Net(link) => link.wall(),
            Way::Direct(_) => machine(),
        }
    }

    /// Sends a request and waits for its answer until the time limit; also returns whether it may have been carried
    /// out more than once.
    pub(super) async fn once(
        &self,
        request: Request,
        until: Instant,
    ) -> Result<(Reply, bool), LockError> {
        let link = match &self.way {
            Way::Net(link) => link,
            Way::Direct(direct) => {
                let held = locked(direct).asked(request);
                let Err(error) = held else { return held };
                tokio::time::sleep_until(until).await;
                return Err(error.with_unknown_outcome());
            }
        };
        let is_write = request.is_write();
        let in_doubt =
            |error: LockError| if is_write { error.with_unknown_outcome() } else { error };
        let (ticket, answer) = link.send(request);
        match timeout_at(until, answer).await {
            Ok(Ok(Outcome::Answered(Reply::Cancelled, _))) => {
                Err(LockError::new(ErrorCode::NetworkTimeout, "the server has cancelled it"))
            }
            Ok(Ok(Outcome::Answered(reply, is_doubled))) => Ok((reply, is_doubled)),
            Ok(Ok(Outcome::Refused)) => Err(unavailable()),
            Ok(Ok(Outcome::Cut) | Err(_)) => Err(in_doubt(unavailable())),
            Err(_) => {
                if self.cancels {
                    link.cancel(ticket.call);
                }
                Err(in_doubt(no_answer()))
            }
        }
    }

    /// A read.
    pub(super) async fn ask(&self, request: Request, until: Instant) -> Result<Reply, LockError> {
        Ok(self.once(request, until).await?.0)
    }
}

fn machine() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Direct {
    fn asked(&mut self, request: Request) -> Result<(Reply, bool), LockError> {
        if request.is_write() && std::mem::take(&mut self.holds) {
            self.held = Some(request);
            return Err(no_answer());
        }
        Ok((self.carry_out(&request), false))
    }

    /// Runs to its end, because no other request can block it.
    fn carry_out(&mut self, request: &Request) -> Reply {
        let Some(statement) = self.server.begins(0, 0, request.clone()) else {
            return self.server.carry_out(machine(), request).0;
        };
        loop {
            let (pause, done, _) = self.server.goes(statement, machine(), &mut self.random);
            if let Some((_, _, reply)) = done.replies.into_iter().next() {
                return reply;
            }
            if pause.is_none() {
                return Reply::Cancelled;
            }
        }
    }
}

fn no_answer() -> LockError {
    LockError::new(ErrorCode::NetworkTimeout, "no answer")
}
