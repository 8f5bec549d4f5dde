//! The inventory as its users see it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{FenceCounter, ListRequest, LockInventory, Page};
use crate::contract::FenceToken;
use crate::{Fence, IntoKey, Key, LockError, LockInfo};

/// The view of each lock and fence counter of a store: the answer of
/// [`LockBackend::inventory`](crate::LockBackend::inventory).
///
/// Each store of this library has one. It is for operators and their tools: to see who holds what, to raise
/// counters after a backup was put back, to move to another store without fences starting anew. It takes and
/// releases no lock, and none of its answers tells a program whether to go on.
///
/// Decorators pass it on as it is. A clone is the same inventory.
#[derive(Clone)]
pub struct Inventory<F: FenceToken = Fence>(Arc<dyn Twin<F>>);

impl<F: FenceToken> Inventory<F> {
    /// For authors of backends: `Some(Inventory::new(self.clone()))` is the answer of a backend that is a
    /// [`LockInventory`].
    #[must_use]
    pub fn new<B: LockInventory<Fence = F>>(backend: B) -> Self {
        Self(Arc::new(backend))
    }

    /// A page of the live locks whose keys begin with the prefix.
    ///
    /// Changes nothing. Records of the TypeScript library are listed as well. A record that makes no sense
    /// stands in [`corrupt`](Page::corrupt), and hides no other.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad prefix or page size.
    /// - `AuthFailed` if the store does not permit it.
    /// - The store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo<F>>, LockError> {
        self.0.list_locks(request.checked()?).await
    }

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
    pub async fn list_counters(
        &self,
        request: ListRequest,
    ) -> Result<Page<FenceCounter>, LockError> {
        self.0.list_counters(request.checked()?).await
    }

    /// The fence counter of a key: what its last acquisition was given, or more if it was raised since.
    /// `None` if the key has none, because it was never locked.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad key.
    /// - `Internal` for a counter that makes no sense.
    /// - The store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn fence_counter(&self, key: impl IntoKey) -> Result<Option<Fence>, LockError> {
        self.0.fence_counter(key.into_key()?).await
    }

    /// Raises the fence counter of a key to at least a value, in one atomic step, and gives the counter as
    /// it is then. It never lowers one, and makes one where there is none.
    ///
    /// Every acquisition that begins after the answer gets a higher fence. A lock that is held keeps its own.
    /// An acquire at the same moment may be refused, as if another one had been faster. At [`Fence::MAX`] a key
    /// is used up: no lock of it is granted any more.
    ///
    /// Carried out late, or twice, it does no harm; so it may simply be repeated after any error.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad key, above [`Fence::MAX`], which no counter passes, and from a backend that
    ///   does not fence.
    /// - `Internal` for a counter that makes no sense, which stays as it is.
    /// - The store's failures, with [`is_outcome_unknown`](LockError::is_outcome_unknown) where it may have
    ///   been carried out.
    ///
    /// # Cancel safety
    ///
    /// A raise that was sent takes effect although its future is dropped.
    pub async fn raise_counter(
        &self,
        key: impl IntoKey,
        at_least: Fence,
    ) -> Result<Fence, LockError> {
        let key = key.into_key()?;
        if at_least > Fence::MAX {
            return Err(LockError::invalid_argument(format!(
                "a counter cannot be raised to {at_least}; up to {} is allowed",
                Fence::MAX
            )));
        }
        self.0.raise_counter(key, at_least).await
    }
}

impl<F: FenceToken> fmt::Debug for Inventory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inventory").finish_non_exhaustive()
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// The object-safe twin of [`LockInventory`].
trait Twin<F: FenceToken>: Send + Sync {
    fn list_locks(&self, request: ListRequest) -> Answer<'_, Page<LockInfo<F>>>;
    fn list_counters(&self, request: ListRequest) -> Answer<'_, Page<FenceCounter>>;
    fn fence_counter(&self, key: Key) -> Answer<'_, Option<Fence>>;
    fn raise_counter(&self, key: Key, at_least: Fence) -> Answer<'_, Fence>;
}

impl<B: LockInventory> Twin<B::Fence> for B {
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
