//! An inventory whose type is not known.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::contract::FenceToken;
use crate::inventory::{CounterPage, CounterRequest, ListRequest, LockPage, RaiseRequest};
use crate::{Fence, LockError};

/// How a backend says that it can look over all locks: the answer of
/// [`LockBackend::inventory`](crate::LockBackend::inventory).
///
/// Decorators pass it on as it is. To use it, put the backend into a [`DynBackend`](crate::DynBackend), which is a
/// [`LockInventory`](crate::inventory::LockInventory).
#[derive(Clone)]
pub struct Inventory<F: FenceToken = Fence>(pub(crate) Arc<dyn Twin<F>>);

impl<F: FenceToken> fmt::Debug for Inventory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inventory").finish_non_exhaustive()
    }
}

pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// The object-safe twin of [`LockInventory`](crate::inventory::LockInventory).
pub(crate) trait Twin<F: FenceToken>: Send + Sync {
    fn list_locks(&self, request: ListRequest) -> Answer<'_, LockPage<F>>;
    fn list_counters(&self, request: ListRequest) -> Answer<'_, CounterPage>;
    fn fence_counter(&self, request: CounterRequest) -> Answer<'_, Option<Fence>>;
    fn raise_counter(&self, request: RaiseRequest) -> Answer<'_, Fence>;
}
