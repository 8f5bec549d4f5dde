//! The three calls of Firestore that locks need. None of them opens a transaction.

use std::sync::Arc;

use gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use gcloud_sdk::google::firestore::v1::run_query_request::QueryType;
use gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, CommitResponse, Document, RunQueryRequest,
    StructuredQuery, Write,
};
use gcloud_sdk::tonic::codegen::tokio_stream::StreamExt as _;
use gcloud_sdk::tonic::{Request, Status};
use gcloud_sdk::{RequestTimeouts, prost_types};
use syncguard_core::LockError;
use syncguard_core::authoring::{
    Connection, FailureSubject, Fault, Finding, Loan, LookLimit, SentAt, ServerTime, StoreClock,
};
use tokio::time::{Instant, timeout_at};

use crate::error::{self, Rpc};
use crate::service::{Maker, Service};

const MISSING: &str = "Firestore's answer makes no sense: a document is missing in it";

/// Makes calls. Each call has a deadline, and its response tells the server's time.
pub(crate) struct Client {
    pub(crate) connection: Connection<Arc<dyn Service>>,
    /// `None`: the connection is the program's.
    maker: Option<Box<dyn Maker>>,
    looks: LookLimit,
    pub(crate) clock: StoreClock,
    pub(crate) database: String,
}

impl Client {
    pub(crate) fn new(
        service: Arc<dyn Service>,
        maker: Option<Box<dyn Maker>>,
        clock: StoreClock,
        database: &str,
    ) -> Self {
        let (connection, looks) = (Connection::new(service), LookLimit::default());
        Self { connection, maker, looks, clock, database: database.to_owned() }
    }

    /// Reads these documents, all at the same time. The answers are in the order of the names.
    pub(crate) async fn read(
        &self,
        names: &[String],
        deadline: Instant,
    ) -> Result<Vec<Option<Document>>, Fault> {
        let request = BatchGetDocumentsRequest {
            database: self.database.clone(),
            documents: names.to_vec(),
            ..BatchGetDocumentsRequest::default()
        };
        let loan = self.connection.lend();
        let call = async {
            let sent = SentAt::now();
            let mut stream = loan.service.read(limited(request, deadline)).await?;
            let mut documents = vec![None; names.len()];
            let mut answers = 0;
            while let Some(answer) = stream.next().await.transpose()? {
                self.measure(sent, answer.read_time.as_ref());
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
            Ok((answers == names.len()).then_some(documents))
        };
        let documents = self.bounded(Rpc::Read, deadline, &loan, call).await?;
        documents.ok_or_else(|| LockError::internal(MISSING).into())
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
        let loan = self.connection.lend();
        let call = async {
            let sent = SentAt::now();
            let mut stream = loan.service.query(limited(request, deadline)).await?;
            let mut documents = Vec::new();
            while let Some(answer) = stream.next().await.transpose()? {
                self.measure(sent, answer.read_time.as_ref());
                documents.extend(answer.document);
            }
            Ok(documents)
        };
        self.bounded(Rpc::Query, deadline, &loan, call).await
    }

    /// Carries out all of these writes; none of them if a precondition does not hold.
    pub(crate) async fn commit(
        &self,
        writes: Vec<Write>,
        deadline: Instant,
    ) -> Result<CommitResponse, Fault> {
        let database = self.database.clone();
        let request = CommitRequest { database, writes, ..CommitRequest::default() };
        let loan = self.connection.lend();
        let call = async {
            let sent = SentAt::now();
            let answer = loan.service.commit(limited(request, deadline)).await?;
            self.measure(sent, answer.commit_time.as_ref());
            Ok(answer)
        };
        self.bounded(Rpc::Commit, deadline, &loan, call).await
    }

    fn measure(&self, sent: SentAt, server: Option<&prost_types::Timestamp>) {
        self.connection.hears();
        let Some(server) = server else { return };
        if let Some(micros) = server.seconds.checked_mul(1_000_000) {
            let unix_micros = micros + i64::from(server.nanos / 1000);
            self.clock.hears(0, sent, ServerTime { unix_micros, unit_micros: 1 });
        }
    }

    /// Makes one call. The driver's limit does not include the wait for a connection, so this function has its own.
    async fn bounded<T>(
        &self,
        rpc: Rpc,
        deadline: Instant,
        loan: &Loan<Arc<dyn Service>>,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Fault> {
        let fault = match timeout_at(deadline, call).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(status)) => error::from_status(&status, rpc),
            Err(_) => Fault::timed_out(rpc == Rpc::Commit),
        };
        Err(self.act_on(fault, loan).await)
    }

    /// Looks for another connection if the fault says so.
    ///
    /// A channel opens a new connection by itself, but only after it has noticed that the old one is lost, and pings take
    /// 40 s for that. So a call without an answer, while nothing else was heard, is enough for a new channel.
    async fn act_on(&self, fault: Fault, loan: &Loan<Arc<dyn Service>>) -> Fault {
        let has_ended = fault.finding == Some(Finding::RuntimeEnded);
        let is_elsewhere = fault.subject == FailureSubject::Server
            || fault.is_timeout() && self.connection.is_silent(loan);
        let is_elsewhere = || is_elsewhere && self.looks.permits();
        match &self.maker {
            _ if fault.subject == FailureSubject::Request => self.connection.hears(),
            None if has_ended => return error::runtime_of_the_client_ended().into(),
            // Calls on the old channel go on.
            Some(maker) if self.connection.is_current(loan) && (has_ended || is_elsewhere()) => {
                match maker.make().await {
                    Ok(service) => self.connection.replace(loan, service),
                    Err(error) => tracing::debug!(%error, "no new channel to Firestore"),
                }
            }
            _ => {}
        }
        fault
    }
}

/// A request with a time limit, which the driver sends to the server: the server also stops working on the call.
fn limited<M>(message: M, deadline: Instant) -> Request<M> {
    let mut request = Request::new(message);
    let left = deadline.saturating_duration_since(Instant::now());
    request.extensions_mut().insert(RequestTimeouts::new().with_total(left));
    request
}
