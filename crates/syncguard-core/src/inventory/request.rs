//! The question to an inventory.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::prefix::KeyPrefix;
use crate::LockError;
use crate::authoring::hash_key;

/// Asks for a page of locks or of counters: [`Inventory::list_locks`](super::Inventory::list_locks),
/// [`Inventory::list_counters`](super::Inventory::list_counters).
///
/// At first it asks for the first 100 of all keys. [`Page::next`](super::Page::next) asks for the page behind. It holds
/// no connection and keeps nothing in the store, so it may lie around for as long as you like. `Debug` shows hashes.
#[derive(Clone)]
pub struct ListRequest {
    prefix: KeyPrefix,
    page_size: usize,
    /// The name of the last entry before the page.
    place: Option<Arc<str>>,
    kept: Option<Arc<dyn Any + Send + Sync>>,
    refused: Option<LockError>,
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
            page_size: Self::PAGE_SIZE,
            place: None,
            kept: None,
            refused: None,
        }
    }

    /// Only keys that begin so: 0 to 512 bytes of text; an empty one stands for all keys. A bad one is refused with
    /// `InvalidArgument` when the page is asked for.
    ///
    /// Keys are compared in NFC, so a prefix that ends in the middle of a character is none: `e` begins
    /// `e` and `ex`, but not `é`.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl AsRef<str>) -> Self {
        (self.prefix, self.refused) = match KeyPrefix::new(prefix) {
            Ok(prefix) => (prefix, None),
            Err(error) => (KeyPrefix::of_no_key(), Some(error)),
        };
        self
    }

    /// How many entries a page may have, 1 to [`MAX_PAGE_SIZE`](Self::MAX_PAGE_SIZE). Another number is refused with
    /// `InvalidArgument` when the page is asked for.
    #[must_use]
    pub fn with_page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// The request, if nothing about it is wrong.
    pub(super) fn checked(self) -> Result<Self, LockError> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        if self.page_size != self.page_size() {
            return Err(LockError::invalid_argument(format!(
                "the page size is {}; 1 to {} are allowed",
                self.page_size,
                Self::MAX_PAGE_SIZE
            )));
        }
        Ok(self)
    }

    /// For authors of backends: how many entries the page may have.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size.clamp(1, Self::MAX_PAGE_SIZE)
    }

    /// For authors of backends: whether a key with this text belongs to the listing.
    #[must_use]
    pub fn includes(&self, key: &str) -> bool {
        key.starts_with(self.prefix.expose())
    }

    /// For authors of backends: the beginning of the keys; empty for all of them. Keep it out of logs.
    #[must_use]
    pub fn expose_prefix(&self) -> &str {
        self.prefix.expose()
    }

    /// For authors of backends: the first text, in the order of the bytes, behind all that begin with the prefix. Where
    /// nothing comes behind them, a text that is behind every key. Keep it out of logs.
    ///
    /// ```
    /// use syncguard_core::inventory::ListRequest;
    ///
    /// assert_eq!(ListRequest::new().with_prefix("job:").expose_end(), "job;");
    /// assert!(ListRequest::new().expose_end().as_str() > "payment:7");
    /// ```
    #[must_use]
    pub fn expose_end(&self) -> String {
        self.prefix.end()
    }

    /// For authors of backends: the name behind which the page begins, and which is not in it; `None` for the
    /// first page. Keep it out of logs.
    #[must_use]
    pub fn expose_place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// For authors of backends: the first name that can be in the page, in the order of the bytes, where
    /// names are the keys themselves. Keep it out of logs.
    #[must_use]
    pub fn expose_start(&self) -> &str {
        self.expose_place().unwrap_or_default().max(self.expose_prefix())
    }

    /// For authors of backends: the request for the page behind the entry with this name. The name may have the key in
    /// it.
    #[must_use]
    pub fn behind(&self, place: impl Into<Arc<str>>) -> Self {
        Self { place: Some(place.into()), kept: None, ..self.clone() }
    }

    /// For authors of backends: keeps something that saves the next page work. A backend that does not find it goes by
    /// the [place](Self::expose_place) alone.
    #[must_use]
    pub fn keeping(mut self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// For authors of backends: what was kept, if it is of this type.
    #[must_use]
    pub fn kept<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.kept.as_ref()?).downcast().ok()
    }
}

impl Default for ListRequest {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ListRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListRequest")
            .field("prefix", &self.prefix)
            .field("page_size", &self.page_size)
            .field("place", &self.place.as_deref().map(hash_key))
            .finish_non_exhaustive()
    }
}
