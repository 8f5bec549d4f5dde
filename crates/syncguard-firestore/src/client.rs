//! The three calls of Firestore that locks need. None of them opens a transaction.

use std::sync::Arc;

use gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use gcloud_sdk::google::firestore::v1::run_query_request::QueryType;
use gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, CommitResponse, Document, RunQueryRequest,
    StructuredQuery, Write,
};
use gcloud_sdk::tonic::{Request, Status};
use gcloud_sdk::{RequestTimeouts, prost_types};
use syncguard_core::authoring::{DriftGauge, FailureSubject, SentAt, ServerTime};
use tokio::time::Instant;

use crate::channel::{Channel, Finding, Loan};
use crate::clock::Clock;
use crate::error::{self, Fault, Rpc};
use crate::names::Layout;
use crate::service::Service;

/// Makes calls. Each call has a deadline, and its response measures the clock drift.
pub(crate) struct Client {
    channel: Arc<Channel>,
    clock: Arc<Clock>,
    gauge: DriftGauge,
}

impl Client {
    pub(crate) fn new(channel: Arc<Channel>, clock: Arc<Clock>) -> Self {
        Self { channel, clock, gauge: DriftGauge::new("firestore") }
    }

    pub(crate) fn gauge(&self) -> &DriftGauge {
        &self.gauge
    }

    /// Reads these documents, all at the same time. The answers are in the order of the names.
    pub(crate) async fn read<const N: usize>(
        &self,
        layout: &Layout,
        names: [&str; N],
        deadline: Instant,
    ) -> Result<[Option<Document>; N], Fault> {
        let request = BatchGetDocumentsRequest {
            database: layout.database().to_owned(),
            documents: names.map(str::to_owned).into(),
            ..BatchGetDocumentsRequest::default()
        };
        self.bounded(Rpc::Read, deadline, request, async |firestore, request| {
            let sent = SentAt::now((self.clock)());
            let mut stream = firestore.read(request).await?;
            let mut documents = [const { None }; N];
            let mut answers = 0;
            while let Some(answer) = stream.message().await? {
                self.measure(&sent, answer.read_time.as_ref());
                let name = match &answer.result {
                    Some(Found::Found(document)) => &document.name,
                    Some(Found::Missing(name)) => name,
                    None => continue,
                };
                let Some(index) = names.iter().position(|wanted| wanted == name) else { continue };
                answers += 1;
                if let Some(Found::Found(document)) = answer.result {
                    documents[index] = Some(document);
                }
            }
            // A document that the answer does not mention may still exist.
            Ok((answers == N).then_some(documents))
        })
        .await?
        .ok_or_else(|| error::unintelligible("a document is missing in it").into())
    }

    /// Runs a query and returns all documents it finds below `parent`.
    pub(crate) async fn query(
        &self,
        parent: String,
        query: StructuredQuery,
        deadline: Instant,
    ) -> Result<Vec<Document>, Fault> {
        let request = RunQueryRequest {
            parent,
            query_type: Some(QueryType::StructuredQuery(query)),
            ..RunQueryRequest::default()
        };
        self.bounded(Rpc::Query, deadline, request, async |firestore, request| {
            let sent = SentAt::now((self.clock)());
            let mut stream = firestore.query(request).await?;
            let mut documents = Vec::new();
            while let Some(answer) = stream.message().await? {
                self.measure(&sent, answer.read_time.as_ref());
                documents.extend(answer.document);
            }
            Ok(documents)
        })
        .await
    }

    /// Carries out all of these writes; none of them if a precondition does not hold.
    pub(crate) async fn commit(
        &self,
        layout: &Layout,
        writes: Vec<Write>,
        deadline: Instant,
    ) -> Result<CommitResponse, Fault> {
        let request = CommitRequest {
            database: layout.database().to_owned(),
            writes,
            ..CommitRequest::default()
        };
        self.bounded(Rpc::Commit, deadline, request, async |firestore, request| {
            let sent = SentAt::now((self.clock)());
            let answer = firestore.commit(request).await?;
            self.measure(&sent, answer.commit_time.as_ref());
            Ok(answer)
        })
        .await
    }

    fn measure(&self, sent: &SentAt, server: Option<&prost_types::Timestamp>) {
        self.channel.hears();
        let shown = server.and_then(|server| {
            let unix_micros =
                server.seconds.checked_mul(1_000_000)? + i64::from(server.nanos / 1000);
            Some(ServerTime { unix_micros, unit_micros: 0 })
        });
        if let Some(shown) = shown {
            self.gauge.take(sent, shown);
        }
    }

    /// Makes one call. The driver sends the time limit to the server, so the server also stops working on the
    /// call. The driver's limit does not include the wait for a connection, so this function has its own.
    async fn bounded<M, T>(
        &self,
        rpc: Rpc,
        deadline: Instant,
        message: M,
        call: impl AsyncFnOnce(Service, Request<M>) -> Result<T, Status>,
    ) -> Result<T, Fault> {
        let mut request = Request::new(message);
        let left = deadline.saturating_duration_since(Instant::now());
        request.extensions_mut().insert(RequestTimeouts::new().with_total(left));
        let loan = self.channel.lend();
        let answer = tokio::time::timeout_at(deadline, call(loan.firestore.clone(), request)).await;
        let status = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(status)) => Some(status),
            Err(_) => None,
        };
        let fault =
            status.map_or_else(|| error::timed_out(rpc), |status| error::from_status(&status, rpc));
        Err(self.act_on(fault, &loan).await)
    }

    /// Looks for another channel if the fault says so.
    async fn act_on(&self, fault: Fault, loan: &Loan) -> Fault {
        match fault.subject {
            FailureSubject::Request => self.channel.hears(),
            FailureSubject::Connection if fault.runtime_ended => {
                if !self.channel.is_ours() {
                    return error::runtime_of_the_client_ended().into();
                }
                self.channel.replace(loan, Finding::RuntimeEnded).await;
            }
            // The channel itself replaces a connection that it knows to be lost.
            FailureSubject::Connection if !fault.is_timeout() => {}
            FailureSubject::Connection if !self.channel.is_silent(loan) => {}
            FailureSubject::Connection | FailureSubject::Server => {
                self.channel.replace(loan, Finding::LookElsewhere).await;
            }
        }
        fault
    }
}
