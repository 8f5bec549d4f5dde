//! The pages of a listing, one after the other.

use crate::LockError;
use crate::inventory::{CounterPage, Cursor, ListRequest, LockInventory, LockPage};

/// The pages of a listing of locks: [`list_locks`](LockInventory::list_locks), from where the request begins to
/// the last page.
///
/// ```
/// use syncguard_core::inventory::{ListRequest, LockInventory, LockPages};
/// use syncguard_core::LockError;
///
/// async fn print_locks(store: &impl LockInventory) -> Result<(), LockError> {
///     let mut pages = LockPages::new(store, ListRequest::new().with_prefix("job:")?);
///     while let Some(page) = pages.next().await? {
///         for lock in page.locks {
///             println!("{:?} until {}", lock.key_hash(), lock.expires_at);
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct LockPages<'a, B> {
    store: &'a B,
    /// Of the next page; none after the last.
    request: Option<ListRequest>,
}

impl<'a, B: LockInventory> LockPages<'a, B> {
    /// Asks for nothing yet.
    #[must_use]
    pub fn new(store: &'a B, request: ListRequest) -> Self {
        Self { store, request: Some(request) }
    }

    /// The next page; `None` after the last one. A page can be empty although more follow.
    ///
    /// # Errors
    ///
    /// As [`list_locks`](LockInventory::list_locks). After an error the same page can be asked for again.
    ///
    /// # Cancel safety
    ///
    /// Safe: the same page comes next.
    pub async fn next(&mut self) -> Result<Option<LockPage<B::Fence>>, LockError> {
        let Some(request) = &self.request else { return Ok(None) };
        let page = self.store.list_locks(request.clone()).await?;
        self.request = follow(self.request.take(), page.next.as_ref());
        Ok(Some(page))
    }
}

/// The pages of a listing of fence counters: [`list_counters`](LockInventory::list_counters), from where the
/// request begins to the last page.
#[derive(Debug)]
pub struct CounterPages<'a, B> {
    store: &'a B,
    /// Of the next page; none after the last.
    request: Option<ListRequest>,
}

impl<'a, B: LockInventory> CounterPages<'a, B> {
    /// Asks for nothing yet.
    #[must_use]
    pub fn new(store: &'a B, request: ListRequest) -> Self {
        Self { store, request: Some(request) }
    }

    /// The next page; `None` after the last one. A page can be empty although more follow.
    ///
    /// # Errors
    ///
    /// As [`list_counters`](LockInventory::list_counters). After an error the same page can be asked for again.
    ///
    /// # Cancel safety
    ///
    /// Safe: the same page comes next.
    pub async fn next(&mut self) -> Result<Option<CounterPage>, LockError> {
        let Some(request) = &self.request else { return Ok(None) };
        let page = self.store.list_counters(request.clone()).await?;
        self.request = follow(self.request.take(), page.next.as_ref());
        Ok(Some(page))
    }
}

/// The request for the page after one that said where it begins.
fn follow(request: Option<ListRequest>, next: Option<&Cursor>) -> Option<ListRequest> {
    Some(request?.with_cursor(next?.clone()))
}
