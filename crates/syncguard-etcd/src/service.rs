//! The calls of etcd, over gRPC or, in tests, to a simulated server.

#![allow(missing_docs, unreachable_pub, reason = "the simulation implements the traits")]
#![allow(clippy::missing_errors_doc, reason = "as above")]

use std::pin::Pin;
use std::sync::Arc;

use prost::Message;
use syncguard_core::LockError;
use syncguard_core::authoring::SentAt;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::error;
use crate::wire::{TxnRequest, TxnResponse, WatchRequest, WatchResponse};

/// The result of a call, when it comes.
pub type Calling<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The answers of a watch, which come one after the other.
pub type Answers = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

/// The requests of a watch.
pub type Requests = UnboundedReceiverStream<WatchRequest>;

/// Makes connections to the members of a cluster.
pub trait Cluster: Send + Sync {
    fn members(&self) -> usize;

    /// # Errors
    ///
    /// `InvalidArgument` outside a tokio runtime.
    fn connect(&self, member: usize) -> Result<Arc<dyn Service>, LockError>;

    /// Host and port of a member.
    fn name(&self, member: usize) -> String;

    /// The answer to a request such as `GET /path` over HTTP, with its head, and when the request was sent.
    fn get(&self, member: usize, request: &'static str) -> Calling<Option<(SentAt, String)>>;

    /// The reason why no connection can be made to a member, if it is a mistake in the URL or in a certificate.
    fn explain(&self, _member: usize) -> Calling<Option<LockError>> {
        Box::pin(async { None })
    }
}

/// A connection to a member.
pub trait Service: Send + Sync {
    fn txn(&self, request: Request<TxnRequest>) -> Calling<Result<TxnResponse, Status>>;

    fn watch(&self, requests: Request<Requests>) -> Calling<Result<Answers, Status>>;

    /// For calls that only a real server answers.
    ///
    /// # Errors
    ///
    /// `Unimplemented` on a simulated server.
    fn channel(&self) -> Result<Channel, Status> {
        Err(Status::unimplemented("not simulated"))
    }
}

impl Service for Channel {
    fn txn(&self, request: Request<TxnRequest>) -> Calling<Result<TxnResponse, Status>> {
        Box::pin(ask(self.clone(), "/etcdserverpb.KV/Txn", request))
    }

    fn watch(&self, requests: Request<Requests>) -> Calling<Result<Answers, Status>> {
        let mut grpc = Grpc::new(self.clone());
        Box::pin(async move {
            grpc.ready().await.map_err(|_| error::not_ready())?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let answers = grpc.streaming(requests, path, ProstCodec::default()).await?;
            Ok(Box::pin(answers.into_inner()) as Answers)
        })
    }

    fn channel(&self) -> Result<Channel, Status> {
        Ok(self.clone())
    }
}

/// A call that has one answer.
pub(crate) async fn ask<M: Message + 'static, A: Message + Default + 'static>(
    channel: Channel,
    path: &'static str,
    request: Request<M>,
) -> Result<A, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|_| error::not_ready())?;
    let codec = ProstCodec::<M, A>::default();
    grpc.unary(request, PathAndQuery::from_static(path), codec).await.map(Response::into_inner)
}
