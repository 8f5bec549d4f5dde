//! The calls of etcd, to a simulated server.

use std::pin::Pin;

use tokio::sync::mpsc::UnboundedReceiver;
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use crate::wire::{TxnRequest, TxnResponse, WatchRequest, WatchResponse};

/// The result of a call, when it comes.
pub type Calling<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// The answers of a watch.
pub type Answers = UnboundedReceiver<Result<WatchResponse, Status>>;

/// The requests of a watch.
pub type Requests = Pin<Box<dyn Stream<Item = WatchRequest> + Send>>;

/// A connection to a simulated server.
pub trait Calls: Send + Sync {
    /// `KV.Txn`.
    fn txn(&self, request: TxnRequest) -> Calling<TxnResponse>;

    /// `Watch.Watch`.
    fn watch(&self, requests: Requests) -> Calling<Answers>;

    /// The `Date` of `GET /version`, in Unix seconds.
    fn date(&self) -> Calling<i64>;

    /// Replaces the connection, because nothing was answered in time.
    fn replace(&self);
}
