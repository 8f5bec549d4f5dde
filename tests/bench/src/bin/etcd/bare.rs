//! The session recipe on a bare channel: a transaction creates a key with a lease, and its deletion frees the lock. No
//! counter.

use anyhow::{Context as _, Result, ensure};
use prost::Message;
use syncguard_etcd::simulated::{
    Compare, DeleteRangeRequest, MOD_REVISION, NO_PUT, Target, TxnResponse, WatchCreateRequest,
    WatchRequest, WatchResponse, WatchUnion,
};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::{StreamExt as _, once, pending};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

/// A channel of its own, and a session.
#[derive(Clone)]
pub(crate) struct Bare {
    channel: Channel,
    session: i64,
}

impl Bare {
    pub(crate) async fn new(port: u16) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?;
        let mut this = Self { channel: endpoint.connect().await?, session: 0 };
        this.session = this.grant().await?;
        Ok(this)
    }

    /// A cycle in the session.
    pub(crate) async fn cycle(self, key: String) -> Result<()> {
        ensure!(self.take(&key).await?);
        self.give_back(&key).await
    }

    /// A cycle with a lease for the lock alone, which ends with it.
    pub(crate) async fn cycle_with_lease(mut self, key: String) -> Result<()> {
        self.session = self.grant().await?;
        ensure!(self.take(&key).await?);
        self.call("Lease/LeaseRevoke", self.session).await
    }

    /// Returns true if the lock was free.
    pub(crate) async fn take(&self, key: &str) -> Result<bool> {
        let revision = Some(Target::ModRevision(0));
        let is_absent = Compare { target: MOD_REVISION, key: key.into(), target_union: revision };
        let put = Put { key: key.into(), value: b"host/4711".to_vec(), lease: self.session };
        let txn = Txn { compare: vec![is_absent], success: vec![Op { put: Some(put) }] };
        let answer: TxnResponse = self.call("KV/Txn", txn).await?;
        Ok(answer.succeeded)
    }

    pub(crate) async fn give_back(&self, key: &str) -> Result<()> {
        self.call("KV/DeleteRange", DeleteRangeRequest { key: key.into() }).await
    }

    /// Hears of each deletion of a key.
    pub(crate) async fn deletions(&self, key: &str) -> Result<Streaming<WatchResponse>> {
        let create = WatchCreateRequest { key: key.into(), filters: vec![NO_PUT] };
        let create = WatchRequest { request_union: Some(WatchUnion::Create(create)) };
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let requests = Request::new(once(create).chain(pending()));
        let mut answers = grpc.streaming(requests, path, codec).await?.into_inner();
        answers.message().await?.context("an answer")?;
        Ok(answers)
    }

    /// A lease of ten minutes.
    async fn grant(&self) -> Result<i64> {
        let Lease { id } = self.call("Lease/LeaseGrant", 600_i64).await?;
        Ok(id)
    }

    async fn call<M, A>(&self, method: &'static str, message: M) -> Result<A>
    where
        M: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await?;
        let path = PathAndQuery::try_from(format!("/etcdserverpb.{method}"))?;
        let answer = grpc.unary(Request::new(message), path, ProstCodec::<M, A>::default()).await?;
        Ok(answer.into_inner())
    }
}

#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
struct Op {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Lease {
    #[prost(int64, tag = "2")]
    id: i64,
}
