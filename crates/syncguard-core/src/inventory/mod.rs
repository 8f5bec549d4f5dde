//! Looking over all locks of a store: what operators need, and what a backend need not have.
//!
//! [`LockBackend::inventory`] gives an [`Inventory`]:
//!
//! ```
//! use syncguard_core::inventory::ListRequest;
//! use syncguard_core::{LockBackend, LockError};
//!
//! async fn print_locks<B: LockBackend>(backend: &B) -> Result<(), LockError> {
//!     let Some(inventory) = backend.inventory() else { return Ok(()) };
//!     let mut next = Some(ListRequest::new().with_prefix("job:"));
//!     while let Some(request) = next {
//!         let page = inventory.list_locks(request).await?;
//!         for lock in page.entries {
//!             println!("{:?} until {}", lock.key_hash(), lock.expires_at);
//!         }
//!         next = page.next;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # What a listing promises
//!
//! - A lock that is live from before the first page is asked for until after the last has come is listed,
//!   exactly once.
//! - No key is listed twice, whatever comes and goes meanwhile.
//! - A lock that was taken, released or has expired meanwhile may be listed or not. Each entry was live when its
//!   page was read.
//! - The store fixes the order: that of the keys' bytes, unless the backend's documentation says another.
//!
//! The same holds for counters, and since they are never deleted, each that is there at the first page is
//! listed.
//!
//! A page is bounded work for the store; the documentation of the backend says what it costs.

mod handle;
mod page;
mod prefix;
mod request;

use std::future::Future;
use std::sync::Arc;

pub use self::handle::Inventory;
pub use self::page::{FenceCounter, Page};
pub use self::request::ListRequest;

use crate::{Fence, Key, LockBackend, LockError, LockInfo};

/// For authors of backends: a backend that can say which locks there are, and read and raise the fence counters of
/// keys. Its [`LockBackend::inventory`] answers `Some(Inventory::new(self.clone()))`, and its users call the
/// methods of [`Inventory`], which check what they are given.
///
/// A dropped future of a reading method gives the operation up. A raise that was sent takes effect although its
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

    /// Raises the fence counter of a key to at least a value, in one atomic step, and gives the counter as
    /// it is then: see [`Inventory::raise_counter`]. The value is [`Fence::MAX`] at the most.
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
