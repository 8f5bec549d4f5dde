//! The backend's connection over the simulated network, in the place of gRPC.

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use syncguard_etcd::simulated::tonic::{ConnectError, Status};
use syncguard_etcd::simulated::{Answers, Calling, Calls, Requests};
use syncguard_etcd::wire::{TxnRequest, TxnResponse};

use super::records::{Answer, Call};
use crate::link::Link;
use crate::listening::{Asked, Told};
use crate::network::Outcome;
use crate::protocol::{Reply as Answered, Request};
use crate::streams::{self, lost};

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
    ) -> Calling<T> {
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

impl Calls for Connection {
    fn txn(&self, request: TxnRequest) -> Calling<TxnResponse> {
        self.call(Call::Txn(request), |answer| match answer {
            Answer::Txn(answer) => Some(answer),
            Answer::Date(_) => None,
        })
    }

    fn date(&self) -> Calling<i64> {
        self.call(Call::Date, |answer| match answer {
            Answer::Date(second) => Some(second),
            Answer::Txn(_) => None,
        })
    }

    fn replace(&self) {
        self.0.network().reconnects(self.0.member);
    }

    fn watch(&self, requests: Requests) -> Calling<Answers> {
        streams::open(&self.0, not_connected, requests, Asked::Etcd, |told| match told {
            Told::Etcd(answer) => Some(answer),
            Told::Firestore(_) => None,
        })
    }
}
