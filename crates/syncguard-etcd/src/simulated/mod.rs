//! For tests: a backend whose calls go to a simulated server instead of gRPC.

use std::pin::Pin;
use std::sync::Arc;

use syncguard_core::LockError;
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use crate::backend::EtcdBackend;
use crate::config::EtcdOptions;
use crate::members::{Maker, Members};
use crate::wire::{TxnRequest, TxnResponse, WatchRequest, WatchResponse};

pub use tonic;

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

/// A backend that makes these calls.
///
/// # Errors
///
/// `InvalidArgument` for a bad option.
pub fn over(calls: Arc<dyn Calls>, options: EtcdOptions) -> Result<EtcdBackend, LockError> {
    let layout = options.check()?;
    EtcdBackend::over(Members::new(Maker::Simulated(calls))?, layout, options)
}
