//! The backend's connection over the simulated network, in the place of gRPC.

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use syncguard_etcd::LockError;
use syncguard_etcd::simulated::tonic::{ConnectError, Request as Asking, Status};
use syncguard_etcd::simulated::{Answers, Calling, Cluster, Requests, Service};
use syncguard_etcd::wire::{TxnRequest, TxnResponse};

use super::records::{Answer, Call};
use crate::link::Link;
use crate::listening::{Asked, Told};
use crate::network::Outcome;
use crate::protocol::{Reply as Answered, Request};
use crate::streams::{self, lost};

#[derive(Clone)]
pub(super) struct Connection(pub(super) Arc<Link>);

/// There is no connection, as tonic says it.
fn not_connected() -> Status {
    let refused = Error::from(ErrorKind::ConnectionRefused);
    Status::from_error(Box::new(ConnectError(Box::new(refused))))
}

impl Connection {
    fn call<T: 'static>(
        &self,
        call: Call,
        read: impl Fn(Answer) -> Option<T> + Send + 'static,
    ) -> Calling<Result<T, Status>> {
        let (ticket, answer) = self.0.send(Request::Etcd(call));
        Box::pin(async move {
            let _ticket = ticket;
            let reply = match answer.await {
                Ok(Outcome::Answered(Answered::Etcd(reply), _)) => reply,
                Ok(Outcome::Refused) => Err(not_connected()),
                _ => Err(lost()),
            };
            reply.map(|answer| read(answer).expect("the answer to this call"))
        })
    }
}

impl Cluster for Connection {
    fn members(&self) -> usize {
        1
    }

    fn connect(&self, _: usize) -> Result<Arc<dyn Service>, LockError> {
        self.0.network().reconnects(self.0.member);
        Ok(Arc::new(self.clone()))
    }

    /// The answer has only the server's time.
    fn get(&self, _: usize, _: &'static str) -> Calling<Option<String>> {
        let second = self.call(Call::Date, |answer| match answer {
            Answer::Date(second) => Some(second),
            Answer::Txn(_) => None,
        });
        Box::pin(async move {
            let time = UNIX_EPOCH + Duration::from_secs(second.await.ok()?.unsigned_abs());
            Some(format!("Date: {}\r\n\r\n", httpdate::fmt_http_date(time)))
        })
    }
}

impl Service for Connection {
    fn txn(&self, request: Asking<TxnRequest>) -> Calling<Result<TxnResponse, Status>> {
        self.call(Call::Txn(request.into_inner()), |answer| match answer {
            Answer::Txn(answer) => Some(answer),
            Answer::Date(_) => None,
        })
    }

    fn watch(&self, requests: Asking<Requests>) -> Calling<Result<Answers, Status>> {
        let requests = requests.into_inner();
        streams::open(&self.0, not_connected, requests, Asked::Etcd, |told| match told {
            Told::Etcd(answer) => Some(answer),
            Told::Firestore(_) => None,
        })
    }
}
