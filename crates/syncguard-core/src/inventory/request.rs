//! What is asked of an inventory.

use tokio_util::sync::CancellationToken;

use crate::inventory::{Cursor, KeyPrefix};
use crate::{Fence, Key, LockError};

/// Asks for a page of locks or of counters: [`LockInventory::list_locks`](crate::inventory::LockInventory::list_locks),
/// [`LockInventory::list_counters`](crate::inventory::LockInventory::list_counters).
///
/// At first it asks for the first 100 of all keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListRequest {
    /// What the keys begin with.
    pub prefix: KeyPrefix,
    /// Behind which place the page begins; `None` for the first page.
    pub after: Option<Cursor>,
    /// How many entries the page may have, 1 to [`MAX_PAGE_SIZE`](Self::MAX_PAGE_SIZE).
    pub page_size: usize,
    /// Gives the operation up when it fires.
    pub cancellation: Option<CancellationToken>,
}

impl ListRequest {
    /// The most entries that a page may have.
    pub const MAX_PAGE_SIZE: usize = 1000;

    const PAGE_SIZE: usize = 100;

    /// The first page of all keys.
    #[must_use]
    pub fn new() -> Self {
        Self {
            prefix: KeyPrefix::default(),
            after: None,
            page_size: Self::PAGE_SIZE,
            cancellation: None,
        }
    }

    /// Only keys that begin so.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as [`KeyPrefix::new`].
    pub fn with_prefix(mut self, prefix: impl AsRef<str>) -> Result<Self, LockError> {
        self.prefix = KeyPrefix::new(prefix)?;
        Ok(self)
    }

    /// Goes on where a page of this listing ended.
    #[must_use]
    pub fn with_cursor(mut self, after: Cursor) -> Self {
        self.after = Some(after);
        self
    }

    /// Sets how many entries a page may have.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` unless it is 1 to 1000.
    pub fn with_page_size(mut self, page_size: usize) -> Result<Self, LockError> {
        if !(1..=Self::MAX_PAGE_SIZE).contains(&page_size) {
            return Err(LockError::invalid_argument(format!(
                "the page size is {page_size}; 1 to {} are allowed",
                Self::MAX_PAGE_SIZE
            )));
        }
        self.page_size = page_size;
        Ok(self)
    }

    /// Gives the operation up with `Aborted` when the token fires.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }

    /// For authors of backends: the name behind which the page begins, and which is not in it; empty for the
    /// first page. Keep it out of logs.
    #[must_use]
    pub fn expose_place(&self) -> &str {
        self.after.as_ref().map_or("", Cursor::expose_place)
    }

    /// For authors of backends: the first name that can be in the page, in the order of the bytes, where
    /// names are the keys themselves. Keep it out of logs.
    #[must_use]
    pub fn expose_start(&self) -> &str {
        self.expose_place().max(self.prefix.expose())
    }
}

impl Default for ListRequest {
    fn default() -> Self {
        Self::new()
    }
}

/// Asks for the fence counter of a key: [`LockInventory::fence_counter`](crate::inventory::LockInventory::fence_counter).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CounterRequest {
    /// Whose counter.
    pub key: Key,
    /// Gives the operation up when it fires.
    pub cancellation: Option<CancellationToken>,
}

impl CounterRequest {
    /// Asks for this key's counter.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key.
    pub fn new<K>(key: K) -> Result<Self, LockError>
    where
        K: TryInto<Key, Error: Into<LockError>>,
    {
        Ok(Self { key: key.try_into().map_err(Into::into)?, cancellation: None })
    }

    /// Gives the operation up with `Aborted` when the token fires.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }
}

/// Asks to raise the fence counter of a key: [`LockInventory::raise_counter`](crate::inventory::LockInventory::raise_counter).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RaiseRequest {
    /// Whose counter.
    pub key: Key,
    /// What the counter holds afterwards at the least.
    pub at_least: Fence,
    /// Gives the operation up when it fires.
    pub cancellation: Option<CancellationToken>,
}

impl RaiseRequest {
    /// Raises this key's counter to this value, or leaves it where it is above already.
    ///
    /// At [`Fence::MAX`] a key is used up: no lock of it is granted any more.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key, and above [`Fence::MAX`], which no counter passes.
    pub fn new<K>(key: K, at_least: Fence) -> Result<Self, LockError>
    where
        K: TryInto<Key, Error: Into<LockError>>,
    {
        let key = key.try_into().map_err(Into::into)?;
        if at_least > Fence::MAX {
            return Err(LockError::invalid_argument(format!(
                "a counter cannot be raised to {at_least}; up to {} is allowed",
                Fence::MAX
            )));
        }
        Ok(Self { key, at_least, cancellation: None })
    }

    /// Gives the operation up with `Aborted` when the token fires.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }
}
