//! The inventory of a backend, as its author writes it.

use std::future::Future;
use std::sync::Arc;

use super::lock_backend::LockBackend;
use crate::contract::info::LockInfo;
use crate::inventory::handle::{Answer, ErasedInventory, Inventory};
use crate::inventory::page::{FenceCounter, Page};
use crate::inventory::request::ListRequest;
use crate::value::{Fence, FenceToken, Key, LockError};

/// For authors of backends: a backend that can list its locks, and read and raise the fence counters of
/// keys. Its [`LockBackend::inventory`] answers `Some(Inventory::new(self.clone()))`. Users call the
/// methods of [`Inventory`], which check the arguments.
///
/// Dropping the future of a reading method gives the operation up. A raise that was sent takes effect even if its
/// future is dropped.
pub trait LockInventory: LockBackend {
    /// A page of the live locks whose keys begin with the prefix: see [`Inventory::list_locks`].
    fn list_locks(
        &self,
        request: ListRequest,
    ) -> impl Future<Output = Result<Page<LockInfo<Self::Fence>>, LockError>> + Send;

    /// A page of the fence counters of the keys that begin with the prefix: see [`Inventory::list_counters`].
    fn list_counters(
        &self,
        request: ListRequest,
    ) -> impl Future<Output = Result<Page<FenceCounter>, LockError>> + Send;

    /// The fence counter of a key: see [`Inventory::fence_counter`].
    fn fence_counter(
        &self,
        key: Key,
    ) -> impl Future<Output = Result<Option<Fence>, LockError>> + Send;

    /// Raises the fence counter of a key to at least this value, in one atomic step, and returns the resulting
    /// counter: see [`Inventory::raise_counter`]. The value is at most [`Fence::MAX`].
    fn raise_counter(
        &self,
        key: Key,
        at_least: Fence,
    ) -> impl Future<Output = Result<Fence, LockError>> + Send;
}

/// A shared inventory is an inventory.
#[deny(clippy::missing_trait_methods)]
impl<B: LockInventory> LockInventory for Arc<B> {
    async fn list_locks(
        &self,
        request: ListRequest,
    ) -> Result<Page<LockInfo<B::Fence>>, LockError> {
        B::list_locks(self, request).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        B::list_counters(self, request).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        B::fence_counter(self, key).await
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        B::raise_counter(self, key, at_least).await
    }
}

impl<F: FenceToken> Inventory<F> {
    /// For authors of backends: a backend that implements [`LockInventory`] answers
    /// `Some(Inventory::new(self.clone()))`.
    #[must_use]
    pub fn new<B: LockInventory<Fence = F>>(backend: B) -> Self {
        Self(Arc::new(backend))
    }
}

impl<B: LockInventory> ErasedInventory<B::Fence> for B {
    fn list_locks(&self, request: ListRequest) -> Answer<'_, Page<LockInfo<B::Fence>>> {
        Box::pin(LockInventory::list_locks(self, request))
    }

    fn list_counters(&self, request: ListRequest) -> Answer<'_, Page<FenceCounter>> {
        Box::pin(LockInventory::list_counters(self, request))
    }

    fn fence_counter(&self, key: Key) -> Answer<'_, Option<Fence>> {
        Box::pin(LockInventory::fence_counter(self, key))
    }

    fn raise_counter(&self, key: Key, at_least: Fence) -> Answer<'_, Fence> {
        Box::pin(LockInventory::raise_counter(self, key, at_least))
    }
}
