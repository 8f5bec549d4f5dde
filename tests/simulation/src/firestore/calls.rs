//! The backend's connection over the simulated network, in the place of gRPC.

use std::sync::Arc;

use syncguard_firestore::LockError;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, CommitRequest, CommitResponse,
    ListenResponse, RunQueryRequest, RunQueryResponse,
};
use syncguard_firestore::gcloud_sdk::tonic::codegen::tokio_stream;
use syncguard_firestore::gcloud_sdk::tonic::{Code, Request as Asking, Status};
use syncguard_firestore::simulated::{Answers, Calling, Maker, Requests, Service};

use super::documents::{Answer, Call, Reply};
use super::flawed::flawed;
use crate::link::Link;
use crate::listening::{Asked, Told};
use crate::network::Outcome;
use crate::protocol::{Reply as Answered, Request};
use crate::streams::{self, lost};

#[derive(Clone)]
pub(super) struct Connection(pub(super) Arc<Link>);

/// There is no connection, as tonic says it.
fn not_connected() -> Status {
    Status::new(Code::Unknown, "Service was not ready: transport error")
}

impl Connection {
    fn call<T: 'static>(
        &self,
        call: Call,
        read: impl Fn(Answer) -> Option<T> + Send + 'static,
    ) -> Calling<'static, T> {
        let (ticket, answer) = self.0.send(Request::Firestore(call));
        Box::pin(async move {
            let _ticket = ticket;
            let reply: Reply = match answer.await {
                Ok(Outcome::Answered(Answered::Firestore(reply), _)) => reply,
                Ok(Outcome::Refused) => Err(not_connected()),
                _ => Err(lost()),
            };
            reply.map(|answer| read(answer).expect("the answer to this call"))
        })
    }
}

/// Answers that are all there.
fn all<T: Send + 'static>(answers: Vec<T>) -> Answers<T> {
    Box::pin(tokio_stream::iter(answers.into_iter().map(Ok)))
}

impl Maker for Connection {
    fn make(&self) -> Calling<'_, Arc<dyn Service>, LockError> {
        self.0.network().reconnects(self.0.member);
        let service: Arc<dyn Service> = Arc::new(self.clone());
        Box::pin(async { Ok(service) })
    }
}

impl Service for Connection {
    fn read(
        &self,
        request: Asking<BatchGetDocumentsRequest>,
    ) -> Calling<'static, Answers<BatchGetDocumentsResponse>> {
        self.call(Call::Read(request.into_inner()), |answer| match answer {
            Answer::Read(answers) => Some(all(answers)),
            _ => None,
        })
    }

    fn query(
        &self,
        request: Asking<RunQueryRequest>,
    ) -> Calling<'static, Answers<RunQueryResponse>> {
        self.call(Call::Query(request.into_inner()), |answer| match answer {
            Answer::Query(answers) => Some(all(answers)),
            _ => None,
        })
    }

    fn commit(&self, request: Asking<CommitRequest>) -> Calling<'static, CommitResponse> {
        let commit = flawed(self.0.network().flaw, request.into_inner());
        self.call(Call::Commit(commit), |answer| match answer {
            Answer::Commit(answer) => Some(answer),
            _ => None,
        })
    }

    fn listen(&self, requests: Requests) -> Calling<'static, Answers<ListenResponse>> {
        streams::open(&self.0, not_connected, requests, Asked::Firestore, |told| match told {
            Told::Firestore(answer) => Some(answer),
            Told::Etcd(_) => None,
        })
    }
}
