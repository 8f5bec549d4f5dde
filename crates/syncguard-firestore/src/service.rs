//! The calls of Firestore: over gRPC, or of a test to a simulated server.

#[cfg(feature = "test-util")]
use std::sync::Arc;

use gcloud_sdk::GoogleAuthMiddleware;
use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, CommitRequest, CommitResponse,
    ListenRequest, ListenResponse, RunQueryRequest, RunQueryResponse,
};
use gcloud_sdk::tonic::codegen::tokio_stream::Stream;
use gcloud_sdk::tonic::{Request, Response, Status, Streaming};
use syncguard_core::LockError;

use crate::connect::ClientMaker;

#[cfg(feature = "test-util")]
use crate::simulated::calls::{self, Calls};

/// Makes the calls. Clones share the connection.
#[derive(Clone)]
pub(crate) enum Service {
    Grpc(FirestoreClient<GoogleAuthMiddleware>),
    #[cfg(feature = "test-util")]
    Simulated(Arc<dyn Calls>),
}

/// Makes services, each with a connection of its own.
pub(crate) enum ServiceMaker {
    Grpc(Box<ClientMaker>),
    #[cfg(feature = "test-util")]
    Simulated(Arc<dyn Calls>),
}

impl ServiceMaker {
    pub(crate) async fn make(&self) -> Result<Service, LockError> {
        match self {
            Self::Grpc(maker) => maker.make().await.map(Service::Grpc),
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => {
                calls.replace();
                Ok(Service::Simulated(Arc::clone(calls)))
            }
        }
    }
}

/// The answers to a call, which come one after the other.
#[cfg_attr(
    feature = "test-util",
    expect(clippy::large_enum_variant, reason = "a box would cost each call, for tests alone")
)]
pub(crate) enum Answers<T> {
    Grpc(Streaming<T>),
    #[cfg(feature = "test-util")]
    Simulated(calls::Answers<T>),
}

impl<T> Answers<T> {
    fn of(response: Response<Streaming<T>>) -> Self {
        Self::Grpc(response.into_inner())
    }

    pub(crate) async fn message(&mut self) -> Result<Option<T>, Status> {
        match self {
            Self::Grpc(stream) => stream.message().await,
            #[cfg(feature = "test-util")]
            Self::Simulated(answers) => answers.recv().await.transpose(),
        }
    }
}

impl Service {
    pub(crate) async fn read(
        &self,
        request: Request<BatchGetDocumentsRequest>,
    ) -> Result<Answers<BatchGetDocumentsResponse>, Status> {
        match self {
            Self::Grpc(client) => {
                client.clone().batch_get_documents(request).await.map(Answers::of)
            }
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => {
                calls.read(request.into_inner()).await.map(Answers::Simulated)
            }
        }
    }

    pub(crate) async fn query(
        &self,
        request: Request<RunQueryRequest>,
    ) -> Result<Answers<RunQueryResponse>, Status> {
        match self {
            Self::Grpc(client) => client.clone().run_query(request).await.map(Answers::of),
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => {
                calls.query(request.into_inner()).await.map(Answers::Simulated)
            }
        }
    }

    pub(crate) async fn commit(
        &self,
        request: Request<CommitRequest>,
    ) -> Result<CommitResponse, Status> {
        match self {
            Self::Grpc(client) => client.clone().commit(request).await.map(Response::into_inner),
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => calls.commit(request.into_inner()).await,
        }
    }

    pub(crate) async fn listen<R>(&self, requests: R) -> Result<Answers<ListenResponse>, Status>
    where
        R: Stream<Item = ListenRequest> + Send + 'static,
    {
        match self {
            Self::Grpc(client) => client.clone().listen(requests).await.map(Answers::of),
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => {
                calls.listen(Box::pin(requests)).await.map(Answers::Simulated)
            }
        }
    }
}
