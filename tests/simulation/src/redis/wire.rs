//! The backend's connections over the simulated network, in the place of fred's.
//!
//! fred's part here: a request that cannot be sent is `Canceled`, one whose connection is lost fails with `IO`, and if
//! a cluster sends one twice, its nodes have changed.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use syncguard_redis::fred::error::{Error as DriverError, ErrorKind};
use syncguard_redis::fred::types::config::Server;
use syncguard_redis::simulated::{
    self, Answering, Command, Listening, Opening, Servers, Service, Target, Traits,
};
use syncguard_redis::{ErrorCode, LockError, RedisBackend, RedisOptions};

use crate::link::Link;
use crate::network::Outcome;
use crate::protocol::{Reply, Request};

/// The way to the server.
#[derive(Clone)]
struct Way {
    link: Arc<Link>,
    is_clustered: bool,
    changes: Arc<AtomicU64>,
}

/// A connection. Number 0 is the one for requests; others hear of changes.
struct Wire {
    way: Way,
    number: u64,
    /// Which of the connections for requests it is; 0 before it is open.
    opened: u64,
}

pub(crate) fn backend(link: &Arc<Link>, is_clustered: bool) -> RedisBackend {
    let way = Way { link: Arc::clone(link), is_clustered, changes: Arc::default() };
    let bound = link.bound;
    let mut options = RedisOptions::new().with_operation_timeout(bound);
    if is_clustered {
        options = options
            .with_key_prefix("{syncguard}")
            .with_wait_replicas(1)
            .with_wait_replicas_timeout(bound / 3);
    }
    let first = Wire { way: way.clone(), number: 0, opened: 0 };
    simulated::over(Arc::new(way), Box::new(first), options).expect("a backend")
}

impl Way {
    async fn connected(&self) -> Result<(), LockError> {
        let unavailable = || LockError::new(ErrorCode::ServiceUnavailable, "not connected");
        self.link.connected().await.ok_or_else(unavailable)
    }
}

impl Servers for Way {
    fn open<'a>(&'a self, _: Option<&'a Server>, _: bool) -> Opening<'a, Box<dyn Service>> {
        Box::pin(async {
            self.connected().await?;
            let opened = self.link.network().reconnects(self.link.member);
            Ok(Box::new(Wire { way: self.clone(), number: 0, opened }) as _)
        })
    }
}

impl Wire {
    fn asks(&self, (command, words): Command) -> Answering<'static> {
        let (ticket, answer) =
            self.way.link.send(Request::Redis { connection: self.number, command, words });
        let changes = Arc::clone(&self.way.changes);
        Box::pin(async move {
            let _ticket = ticket;
            match answer.await {
                Ok(Outcome::Answered(Reply::Redis(reply), is_doubled)) => {
                    changes.fetch_add(u64::from(is_doubled), Ordering::Relaxed);
                    let answer = |text| DriverError::new(ErrorKind::Unknown, text);
                    reply.map(|value| (value, None)).map_err(answer)
                }
                Ok(Outcome::Refused) => Err(DriverError::new(ErrorKind::Canceled, "not connected")),
                _ => Err(DriverError::new(ErrorKind::IO, "the connection was lost")),
            }
        })
    }
}

impl Service for Wire {
    fn traits(&self) -> Traits {
        let is_clustered = self.way.is_clustered;
        Traits { is_clustered, may_send_twice: is_clustered, has_timer: false }
    }

    fn is_up(&self) -> bool {
        let link = &self.way.link;
        self.number > 0 || self.opened == link.network().connection(link.member)
    }

    fn send(&self, _: Target, command: Command, then: Option<Command>) -> Answering<'_> {
        if !self.is_up() {
            return Box::pin(async { Err(DriverError::new(ErrorKind::Canceled, "not connected")) });
        }
        let (answer, next) = (self.asks(command), then.map(|next| self.asks(next)));
        Box::pin(async move {
            let (value, _) = answer.await?;
            Ok(match next {
                Some(next) => (value, Some(next.await.map(|(value, _)| value))),
                None => (value, None),
            })
        })
    }

    fn listen(&self, _: Option<Server>, _: Duration) -> Opening<'_, Listening> {
        Box::pin(async {
            self.way.connected().await?;
            let link = &self.way.link;
            let (number, changes) = link.network().listens(link.member);
            // Nobody sends it twice.
            let way = Way { changes: Arc::default(), is_clustered: false, ..self.way.clone() };
            let service = Box::new(Wire { way, number, opened: 0 });
            Ok(Listening { service, changes, ended: Box::pin(pending()) })
        })
    }

    fn changes(&self) -> u64 {
        self.way.changes.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.number > 0 {
            self.way.link.network().stops_listening(self.number);
        }
    }
}
