//! Looking over all locks of a store: what operators need, and what no backend has to have.

mod handle;
mod page;
mod pages;
mod request;

use std::future::Future;
use std::sync::Arc;

pub use self::handle::Inventory;
pub use self::page::{CounterPage, Cursor, FenceCounter, LockPage};
pub use self::pages::{CounterPages, LockPages};
pub use self::request::{CounterRequest, ListRequest, RaiseRequest};
pub use crate::value::KeyPrefix;

use self::handle::{Answer, Twin};
use crate::{Fence, LockBackend, LockError};

/// A backend that can say which locks there are, and read and raise the fence counters of keys.
///
/// All stores of this library can. It is for operators and their tools: to see who holds what, to raise
/// counters after a backup was put back, to move to another store without fences starting anew. No lock is
/// taken or released by it, and none of it tells a program whether to go on.
///
/// ```
/// use syncguard_core::inventory::{ListRequest, LockInventory, LockPages};
/// use syncguard_core::LockError;
///
/// async fn count_locks(store: &impl LockInventory) -> Result<usize, LockError> {
///     let mut pages = LockPages::new(store, ListRequest::new().with_prefix("job:")?);
///     let mut count = 0;
///     while let Some(page) = pages.next().await? {
///         count += page.locks.len();
///     }
///     Ok(count)
/// }
/// ```
///
/// # What a listing promises
///
/// - A lock that is live from before the first page is asked for until after the last has come is listed,
///   exactly once.
/// - No key is listed twice, whatever comes and goes meanwhile.
/// - What was taken, released or has expired meanwhile may be listed or not. Each entry was live when its page
///   was read.
/// - The order is one that the store has fixed: that of the keys' bytes, unless the backend's
///   documentation says another.
///
/// The same holds for counters, and since they are never deleted, each that is there at the first page is
/// listed.
///
/// A page is bounded work for the store; what it costs is in the documentation of the backend.
pub trait LockInventory: LockBackend {
    /// A page of the live locks whose keys begin with the prefix.
    ///
    /// Changes nothing. Records of the TypeScript library are listed as well. A record that makes no sense
    /// stands in [`corrupt`](LockPage::corrupt), and hides no other.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` from a [`DynBackend`](crate::DynBackend) whose store cannot list its locks.
    /// - `AuthFailed` if the store does not permit it.
    /// - `Aborted` if the request's token fires, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    fn list_locks(
        &self,
        request: ListRequest,
    ) -> impl Future<Output = Result<LockPage<Self::Fence>, LockError>> + Send;

    /// A page of the fence counters of the keys that begin with the prefix, also of those that are not locked
    /// now.
    ///
    /// To copy fences to another store, [raise](Self::raise_counter) each of them there. That may be repeated,
    /// and begun anew after an interruption. Do it while nobody takes locks on either store.
    ///
    /// # Errors
    ///
    /// As [`list_locks`](Self::list_locks); and `InvalidArgument` from a store that keeps counters under
    /// names from which the keys cannot be told, so that the page would not be all there is: the backend's
    /// documentation says when.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    fn list_counters(
        &self,
        request: ListRequest,
    ) -> impl Future<Output = Result<CounterPage, LockError>> + Send;

    /// The fence counter of a key: what its last acquisition was given, or more if it was raised since.
    /// `None` if the key has none, because it was never locked.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` from a [`DynBackend`](crate::DynBackend) whose store cannot list its locks.
    /// - `Internal` for a counter that makes no sense.
    /// - `Aborted` if the request's token fires, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    fn fence_counter(
        &self,
        request: CounterRequest,
    ) -> impl Future<Output = Result<Option<Fence>, LockError>> + Send;

    /// Raises the fence counter of a key to at least a value, in one atomic step, and gives the counter as
    /// it is then. It never lowers one, and makes one where there is none.
    ///
    /// Every acquisition that begins after the answer gets a higher fence. A lock that is held keeps its own.
    /// An acquire at the same moment may be refused, as if another one had been faster.
    ///
    /// Carried out late, or twice, it does no harm; so it may simply be repeated after any error.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` from a [`DynBackend`](crate::DynBackend) whose store cannot list its locks, and
    ///   from a backend that does not fence.
    /// - `Internal` for a counter that makes no sense, which stays as it is.
    /// - `Aborted` if the request's token fires, and the store's failures, with
    ///   [`is_outcome_unknown`](LockError::is_outcome_unknown) where it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A raise that was sent takes effect although its future is dropped.
    fn raise_counter(
        &self,
        request: RaiseRequest,
    ) -> impl Future<Output = Result<Fence, LockError>> + Send;
}

impl<F: crate::contract::FenceToken> Inventory<F> {
    /// For authors of backends: `Some(Inventory::new(self.clone()))` is what a backend answers that is a
    /// [`LockInventory`].
    #[must_use]
    pub fn new<B: LockInventory<Fence = F>>(backend: B) -> Self {
        Self(Arc::new(backend))
    }
}

/// A shared inventory is an inventory.
#[deny(clippy::missing_trait_methods)]
impl<B: LockInventory> LockInventory for Arc<B> {
    async fn list_locks(&self, request: ListRequest) -> Result<LockPage<B::Fence>, LockError> {
        B::list_locks(self, request).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<CounterPage, LockError> {
        B::list_counters(self, request).await
    }

    async fn fence_counter(&self, request: CounterRequest) -> Result<Option<Fence>, LockError> {
        B::fence_counter(self, request).await
    }

    async fn raise_counter(&self, request: RaiseRequest) -> Result<Fence, LockError> {
        B::raise_counter(self, request).await
    }
}

impl<B: LockInventory> Twin<B::Fence> for B {
    fn list_locks(&self, request: ListRequest) -> Answer<'_, LockPage<B::Fence>> {
        Box::pin(LockInventory::list_locks(self, request))
    }

    fn list_counters(&self, request: ListRequest) -> Answer<'_, CounterPage> {
        Box::pin(LockInventory::list_counters(self, request))
    }

    fn fence_counter(&self, request: CounterRequest) -> Answer<'_, Option<Fence>> {
        Box::pin(LockInventory::fence_counter(self, request))
    }

    fn raise_counter(&self, request: RaiseRequest) -> Answer<'_, Fence> {
        Box::pin(LockInventory::raise_counter(self, request))
    }
}
