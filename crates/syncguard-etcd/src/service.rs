//! The calls of etcd: over gRPC, or of a test to a simulated server.

#[cfg(feature = "test-util")]
use std::sync::Arc;

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::error;
#[cfg(feature = "test-util")]
use crate::simulated::calls::{self, Calls};
use crate::wire::{TxnRequest, TxnResponse, WatchRequest, WatchResponse};

/// Calls that have one answer, and that only a real server answers.
pub(crate) mod paths {
    pub(crate) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
    pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
    pub(crate) const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
    pub(crate) const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
}

/// Makes the calls to one member. Clones share the connection.
#[derive(Clone)]
pub(crate) enum Service {
    Grpc(Channel),
    #[cfg(feature = "test-util")]
    Simulated(Arc<dyn Calls>),
}

/// The answers of a watch, which come one after the other.
#[cfg_attr(
    feature = "test-util",
    expect(clippy::large_enum_variant, reason = "a box would cost each watch, for tests alone")
)]
pub(crate) enum Answers {
    Grpc(Streaming<WatchResponse>),
    #[cfg(feature = "test-util")]
    Simulated(calls::Answers),
}

impl Answers {
    pub(crate) async fn message(&mut self) -> Result<Option<WatchResponse>, Status> {
        match self {
            Self::Grpc(stream) => stream.message().await,
            #[cfg(feature = "test-util")]
            Self::Simulated(answers) => answers.recv().await.transpose(),
        }
    }
}

impl Service {
    pub(crate) async fn txn(&self, request: Request<TxnRequest>) -> Result<TxnResponse, Status> {
        match self {
            Self::Grpc(channel) => unary(channel, "/etcdserverpb.KV/Txn", request).await,
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => calls.txn(request.into_inner()).await,
        }
    }

    pub(crate) async fn watch<R>(&self, requests: Request<R>) -> Result<Answers, Status>
    where
        R: Stream<Item = WatchRequest> + Send + 'static,
    {
        match self {
            Self::Grpc(channel) => {
                let mut grpc = Grpc::new(channel.clone());
                grpc.ready().await.map_err(|_| error::not_ready())?;
                let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
                let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
                let answers = grpc.streaming(requests, path, codec).await?;
                Ok(Answers::Grpc(answers.into_inner()))
            }
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => {
                calls.watch(Box::pin(requests.into_inner())).await.map(Answers::Simulated)
            }
        }
    }

    /// A call of [`paths`].
    pub(crate) async fn ask<M, A>(
        &self,
        path: &'static str,
        request: Request<M>,
    ) -> Result<A, Status>
    where
        M: Message + 'static,
        A: Message + Default + 'static,
    {
        match self {
            Self::Grpc(channel) => unary(channel, path, request).await,
            #[cfg(feature = "test-util")]
            Self::Simulated(_) => Err(Status::unimplemented("not simulated")),
        }
    }
}

async fn unary<M, A>(
    channel: &Channel,
    path: &'static str,
    request: Request<M>,
) -> Result<A, Status>
where
    M: Message + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|_| error::not_ready())?;
    let codec = ProstCodec::<M, A>::default();
    grpc.unary(request, PathAndQuery::from_static(path), codec).await.map(Response::into_inner)
}
