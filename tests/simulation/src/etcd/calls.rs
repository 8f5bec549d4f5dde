//! The backend's connection over the simulated network, in the place of gRPC.

use std::future::poll_fn;
use std::io::{Error, ErrorKind};
use std::sync::Arc;

use syncguard_etcd::simulated::tonic::{ConnectError, Status};
use syncguard_etcd::simulated::{Answers, Calling, Calls, Requests};
use syncguard_etcd::wire::{TxnRequest, TxnResponse};
use tokio::sync::mpsc;

use super::records::{Answer, Call};
use crate::hub::Outcome;
use crate::link::Link;
use crate::listening::{Asked, Told};
use crate::protocol::{Reply as Answered, Request};

pub(super) struct Connection(pub(super) Arc<Link>);

/// The connection was lost during the call.
fn lost() -> Status {
    Status::from_error(Box::new(Error::from(ErrorKind::ConnectionReset)))
}

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
        self.0.hub().reconnects(self.0.member);
    }

    fn watch(&self, mut requests: Requests) -> Calling<Answers> {
        let link = Arc::clone(&self.0);
        Box::pin(async move {
            link.connected().await.ok_or_else(not_connected)?;
            let (sender, answers) = mpsc::unbounded_channel();
            let deliver = move |told| {
                let answer = match told {
                    Some(Told::Etcd(answer)) => Ok(answer),
                    _ => Err(lost()),
                };
                let _ = sender.send(answer);
            };
            let stream = link.hub().opens_stream(link.member, Box::new(deliver));
            tokio::spawn(async move {
                while let Some(request) =
                    poll_fn(|context| requests.as_mut().poll_next(context)).await
                {
                    link.hub().listens_to(stream, link.now(), Asked::Etcd(request));
                }
                link.hub().closes_stream(stream);
            });
            Ok(answers)
        })
    }
}
