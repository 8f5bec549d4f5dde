//! The backend's connections over the simulated network, in the place of fred's.
//!
//! fred's part here: a request that cannot be sent is `Canceled`, one whose connection is lost fails with `IO`, and if
//! a cluster sends one twice, its nodes have changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncguard_redis::fred::error::{Error as DriverError, ErrorKind};
use syncguard_redis::fred::types::Value;
use syncguard_redis::fred::types::config::{Config, ServerConfig};
use syncguard_redis::simulated::{self, Answering, Listening, Opening};
use syncguard_redis::{RedisBackend, RedisOptions, WaitReplicas};

use crate::link::Link;
use crate::network::Outcome;
use crate::protocol::{Reply, Request};

/// A connection. Number 0 is the one for requests; others hear of changes.
struct Wire {
    link: Arc<Link>,
    number: u64,
    /// Which of the connections for requests it is; 0 before it is open.
    opened: u64,
    changes: Arc<AtomicU64>,
}

pub(crate) fn backend(link: &Arc<Link>, is_clustered: bool) -> RedisBackend {
    let wire =
        Arc::new(Wire { link: Arc::clone(link), number: 0, opened: 0, changes: Arc::default() });
    let mut config = Config::default();
    let bound = link.bound;
    let mut options = RedisOptions::new().with_command_timeout(bound);
    if is_clustered {
        config.server = ServerConfig::default_clustered();
        options = options
            .with_key_prefix("{syncguard}")
            .with_wait_replicas(WaitReplicas::new(1).with_timeout(bound / 3));
    }
    simulated::over(config, wire, options).expect("a backend")
}

impl simulated::Wire for Wire {
    fn send(&self, command: &'static str, words: Vec<Value>) -> Answering {
        if !self.is_up() {
            return Box::pin(async { Err(DriverError::new(ErrorKind::Canceled, "not connected")) });
        }
        let (ticket, answer) =
            self.link.send(Request::Redis { connection: self.number, command, words });
        let changes = Arc::clone(&self.changes);
        Box::pin(async move {
            let _ticket = ticket;
            match answer.await {
                Ok(Outcome::Answered(Reply::Redis(reply), is_doubled)) => {
                    changes.fetch_add(u64::from(is_doubled), Ordering::Relaxed);
                    reply.map_err(|text| DriverError::new(ErrorKind::Unknown, text))
                }
                Ok(Outcome::Refused) => Err(DriverError::new(ErrorKind::Canceled, "not connected")),
                _ => Err(DriverError::new(ErrorKind::IO, "the connection was lost")),
            }
        })
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn is_up(&self) -> bool {
        self.number > 0 || self.opened == self.link.network().connection(self.link.member)
    }

    fn reconnect(&self) -> Opening<Arc<dyn simulated::Wire>> {
        let (link, changes) = (Arc::clone(&self.link), Arc::clone(&self.changes));
        Box::pin(async move {
            link.connected().await?;
            let opened = link.network().reconnects(link.member);
            let wire = Self { link, number: 0, opened, changes };
            Some(Arc::new(wire) as Arc<dyn simulated::Wire>)
        })
    }

    fn listen(&self) -> Opening<Listening> {
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            link.connected().await?;
            let (number, changes) = link.network().listens(link.member);
            let wire = Self { link, number, opened: 0, changes: Arc::default() };
            Some((Arc::new(wire) as Arc<dyn simulated::Wire>, changes))
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.number > 0 {
            self.link.network().stops_listening(self.number);
        }
    }
}
