//! The calls of Firestore, over gRPC or, in tests, to a simulated server.

#![allow(missing_docs, unreachable_pub, reason = "the simulation implements the traits")]

use std::pin::Pin;
use std::sync::Arc;

use gcloud_sdk::GoogleAuthMiddleware;
use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, CommitRequest, CommitResponse,
    ListenRequest, ListenResponse, RunQueryRequest, RunQueryResponse,
};
use gcloud_sdk::tonic::codegen::tokio_stream::Stream;
use gcloud_sdk::tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use gcloud_sdk::tonic::{Request, Response, Status, Streaming};
use syncguard_core::LockError;

/// The result of a call, when it comes.
pub type Calling<'a, T, E = Status> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// The answers to a call, which come one after the other.
pub type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The requests of a call.
pub type Requests = UnboundedReceiverStream<ListenRequest>;

/// Makes connections.
pub trait Maker: Send + Sync {
    fn make(&self) -> Calling<'_, Arc<dyn Service>, LockError>;
}

/// A connection.
pub trait Service: Send + Sync {
    fn read(
        &self,
        request: Request<BatchGetDocumentsRequest>,
    ) -> Calling<'static, Answers<BatchGetDocumentsResponse>>;

    fn query(
        &self,
        request: Request<RunQueryRequest>,
    ) -> Calling<'static, Answers<RunQueryResponse>>;

    fn commit(&self, request: Request<CommitRequest>) -> Calling<'static, CommitResponse>;

    fn listen(&self, requests: Requests) -> Calling<'static, Answers<ListenResponse>>;
}

impl Service for FirestoreClient<GoogleAuthMiddleware> {
    fn read(
        &self,
        request: Request<BatchGetDocumentsRequest>,
    ) -> Calling<'static, Answers<BatchGetDocumentsResponse>> {
        let mut client = self.clone();
        Box::pin(async move { client.batch_get_documents(request).await.map(answers) })
    }

    fn query(
        &self,
        request: Request<RunQueryRequest>,
    ) -> Calling<'static, Answers<RunQueryResponse>> {
        let mut client = self.clone();
        Box::pin(async move { client.run_query(request).await.map(answers) })
    }

    fn commit(&self, request: Request<CommitRequest>) -> Calling<'static, CommitResponse> {
        let mut client = self.clone();
        Box::pin(async move { Self::commit(&mut client, request).await.map(Response::into_inner) })
    }

    fn listen(&self, requests: Requests) -> Calling<'static, Answers<ListenResponse>> {
        let mut client = self.clone();
        Box::pin(async move { Self::listen(&mut client, requests).await.map(answers) })
    }
}

fn answers<T: Send + 'static>(response: Response<Streaming<T>>) -> Answers<T> {
    Box::pin(response.into_inner())
}
