//! The inventory as its users see it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::page::{FenceCounter, Page};
use super::request::ListRequest;
use crate::contract::info::LockInfo;
use crate::value::{Fence, FenceToken, IntoKey, Key, LockError};

/// A view of all locks and fence counters of a store: the answer of
/// [`LockBackend::inventory`](crate::LockBackend::inventory).
///
/// Each store of this library has an inventory. It is for operators and their tools: they see who holds which lock,
/// raise counters after a backup was restored, and move to another store without fences starting anew. The inventory
/// takes and releases no lock, and a program must not decide by its answers whether to go on.
///
/// Decorators pass the inventory on unchanged. A clone is the same inventory.
#[derive(Clone)]
pub struct Inventory<F: FenceToken = Fence>(pub(crate) Arc<dyn ErasedInventory<F>>);

impl<F: FenceToken> Inventory<F> {
    /// A page of the live locks whose keys begin with the prefix.
    ///
    /// The call changes nothing, and lists records of the TypeScript library too. A corrupt record is
    /// in [`corrupt`](Page::corrupt), and hides no other record.
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

    /// A page of the fence counters of the keys that begin with the prefix, whether the keys are locked or not.
    ///
    /// To copy fences to another store, [raise](Self::raise_counter) each counter there. The copy may be repeated,
    /// and begun anew after an interruption. Do it while nobody takes locks on either store.
    ///
    /// # Errors
    ///
    /// As [`list_locks`](Self::list_locks). Also `InvalidArgument` from a store that keeps counters under
    /// names that do not show the keys, because the page would be incomplete: the backend's
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

    /// The fence counter of a key: the fence of its last acquisition, or more if the counter was raised since.
    /// `None` if the key was never locked and so has no counter.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad key.
    /// - `Internal` for a corrupt counter.
    /// - The store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn fence_counter(&self, key: impl IntoKey) -> Result<Option<Fence>, LockError> {
        self.0.fence_counter(key.into_key()?).await
    }

    /// Raises the fence counter of a key to at least this value, in one atomic step, and returns the resulting
    /// counter. It never lowers a counter, and creates the counter if there is none.
    ///
    /// Every acquisition that begins after the answer gets a higher fence. A lock that is held keeps its fence.
    /// An acquire at the same moment may be refused, as if a rival had been faster. At [`Fence::MAX`] a key
    /// is used up: no lock of the key is granted any more.
    ///
    /// A raise that is carried out late or twice does no harm, so it may be repeated after any error.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad key, for a value above [`Fence::MAX`], which no counter exceeds, and from a
    ///   backend that does not fence.
    /// - `Internal` for a corrupt counter, which stays as it is.
    /// - The store's failures, with [`is_outcome_unknown`](LockError::is_outcome_unknown) if the store may have
    ///   carried the raise out.
    ///
    /// # Cancel safety
    ///
    /// A raise that was sent takes effect even if its future is dropped.
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

pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// The object-safe form of [`LockInventory`](super::LockInventory).
pub(crate) trait ErasedInventory<F: FenceToken>: Send + Sync {
    fn list_locks(&self, request: ListRequest) -> Answer<'_, Page<LockInfo<F>>>;
    fn list_counters(&self, request: ListRequest) -> Answer<'_, Page<FenceCounter>>;
    fn fence_counter(&self, key: Key) -> Answer<'_, Option<Fence>>;
    fn raise_counter(&self, key: Key, at_least: Fence) -> Answer<'_, Fence>;
}
