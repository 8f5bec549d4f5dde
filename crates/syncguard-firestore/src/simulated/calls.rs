//! The calls to a simulated server.

use std::pin::Pin;

use gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, CommitRequest, CommitResponse,
    ListenRequest, ListenResponse, RunQueryRequest, RunQueryResponse,
};
use gcloud_sdk::tonic::Status;
use gcloud_sdk::tonic::codegen::tokio_stream::Stream;
use tokio::sync::mpsc::UnboundedReceiver;

/// The result of a call, when it comes.
pub type Calling<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// The answers to a call, which come one after the other.
pub type Answers<T> = UnboundedReceiver<Result<T, Status>>;

/// The requests of a stream.
pub type Requests = Pin<Box<dyn Stream<Item = ListenRequest> + Send>>;

/// A connection to a simulated server.
pub trait Calls: Send + Sync {
    /// `BatchGetDocuments`.
    fn read(
        &self,
        request: BatchGetDocumentsRequest,
    ) -> Calling<Answers<BatchGetDocumentsResponse>>;

    /// `RunQuery`.
    fn query(&self, request: RunQueryRequest) -> Calling<Answers<RunQueryResponse>>;

    /// `Commit`.
    fn commit(&self, request: CommitRequest) -> Calling<CommitResponse>;

    /// Replaces the connection, because nothing was answered in time.
    fn replace(&self);

    /// `Listen`.
    fn listen(&self, requests: Requests) -> Calling<Answers<ListenResponse>>;
}
