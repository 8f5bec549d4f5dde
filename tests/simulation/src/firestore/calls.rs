//! The backend's connection over the simulated network, in the place of gRPC.

use std::sync::Arc;

use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, CommitRequest, CommitResponse,
    ListenResponse, RunQueryRequest, RunQueryResponse,
};
use syncguard_firestore::gcloud_sdk::tonic::{Code, Status};
use syncguard_firestore::simulated::{Answers, Calling, Calls, Requests};
use tokio::sync::mpsc;

use super::documents::{Answer, Call, Reply};
use crate::link::Link;
use crate::listening::{Asked, Told};
use crate::network::Outcome;
use crate::protocol::{Reply as Answered, Request};
use crate::streams::{self, lost};

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
    ) -> Calling<T> {
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
pub(super) fn all<T>(of: Vec<T>) -> Answers<T> {
    let (sender, answers) = mpsc::unbounded_channel();
    for one in of {
        let _ = sender.send(Ok(one));
    }
    answers
}

impl Calls for Connection {
    fn read(
        &self,
        request: BatchGetDocumentsRequest,
    ) -> Calling<Answers<BatchGetDocumentsResponse>> {
        self.call(Call::Read(request), |answer| match answer {
            Answer::Read(answers) => Some(all(answers)),
            _ => None,
        })
    }

    fn query(&self, request: RunQueryRequest) -> Calling<Answers<RunQueryResponse>> {
        self.call(Call::Query(request), |answer| match answer {
            Answer::Query(answers) => Some(all(answers)),
            _ => None,
        })
    }

    fn commit(&self, request: CommitRequest) -> Calling<CommitResponse> {
        self.call(Call::Commit(request), |answer| match answer {
            Answer::Commit(answer) => Some(answer),
            _ => None,
        })
    }

    fn replace(&self) {
        self.0.network().reconnects(self.0.member);
    }

    fn listen(&self, requests: Requests) -> Calling<Answers<ListenResponse>> {
        streams::open(&self.0, not_connected, requests, Asked::Firestore, |told| match told {
            Told::Firestore(answer) => Some(answer),
            Told::Etcd(_) => None,
        })
    }
}
