//! The backend's connection over the simulated network, in the place of gRPC.

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use syncguard_etcd::LockError;
use syncguard_etcd::authoring::SentAt;
use syncguard_etcd::simulated::tonic::{ConnectError, Request as Asking, Status};
use syncguard_etcd::simulated::{Answers, Calling, Cluster, Requests, Service};
use syncguard_etcd::simulated::{TxnRequest, TxnResponse};

use super::flawed::flawed;
use super::records::{Answer, CLUSTER, Call, MEMBERS};
use crate::flaw::Flaw;
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
    fn flaw(&self) -> Option<Flaw> {
        self.0.network().flaw
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw() == Some(flaw)
    }

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
        if self.is(Flaw::NoMajority) { 1 } else { MEMBERS }
    }

    fn connect(&self, _: usize) -> Result<Arc<dyn Service>, LockError> {
        self.0.network().reconnects(self.0.member);
        Ok(Arc::new(self.clone()))
    }

    fn name(&self, member: usize) -> String {
        member.to_string()
    }

    /// The answer has only the server's time and the cluster.
    fn get(&self, member: usize, _: &'static str) -> Calling<Option<(SentAt, String)>> {
        let process = self.0.member;
        let member = if self.is(Flaw::NoMajority) { process % MEMBERS } else { member };
        let (sent, is_untold) = (SentAt::now(), self.is(Flaw::WallTime));
        // Then one half has its earliest bound where the latest one should be, and the other half the latest one where the
        // earliest one should be.
        let swapped = if process.is_multiple_of(2) { 1 } else { -1 };
        let swapped = if self.is(Flaw::SwappedBounds) { swapped } else { 0 };
        let second = self.call(Call::Date(member), |answer| match answer {
            Answer::Date(second) => Some(second),
            Answer::Txn(_) => None,
        });
        Box::pin(async move {
            let second = second.await.ok()? + swapped;
            let time = UNIX_EPOCH + Duration::from_secs(second.unsigned_abs());
            let date = httpdate::fmt_http_date(time);
            let name = if is_untold { "Age" } else { "Date" };
            let body = format!(r#"{{"header":{{"cluster_id":"{CLUSTER}"}}}}"#);
            Some((sent, format!("{name}: {date}\r\n\r\n{body}")))
        })
    }
}

impl Service for Connection {
    fn txn(&self, request: Asking<TxnRequest>) -> Calling<Result<TxnResponse, Status>> {
        self.call(Call::Txn(flawed(self.flaw(), request.into_inner())), |answer| match answer {
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
