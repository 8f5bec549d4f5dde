//! The request for a page of an inventory.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::prefix::{after_every_key, checked, end_of};
use crate::value::{LockError, hash_key};

/// Asks for a page of locks or of counters: [`Inventory::list_locks`](super::Inventory::list_locks),
/// [`Inventory::list_counters`](super::Inventory::list_counters).
///
/// A new request asks for the first 100 of all keys. [`Page::next`](super::Page::next) is the request for the next
/// page. A request holds no connection and no state in the store, so it may be kept for any time. `Debug` shows hashes.
#[derive(Clone)]
pub struct ListRequest {
    prefix: Arc<str>,
    page_size: usize,
    /// The name of the last entry before the page.
    after: Option<Arc<str>>,
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
            prefix: Arc::default(),
            page_size: Self::PAGE_SIZE,
            after: None,
            kept: None,
            refused: None,
        }
    }

    /// Lists only keys with this prefix: 0 to 512 bytes of text; the empty prefix stands for all keys. A bad prefix is
    /// refused with `InvalidArgument` when the page is asked for.
    ///
    /// Keys are compared in NFC, so a prefix cannot end in the middle of a character: `e` is a prefix of
    /// `e` and `ex`, but not of `é`.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl AsRef<str>) -> Self {
        (self.prefix, self.refused) = match checked(prefix.as_ref()) {
            Ok(prefix) => (prefix, None),
            Err(error) => (after_every_key().into(), Some(error)),
        };
        self
    }

    crate::setters! {
        /// The most entries that a page may have, 1 to [`MAX_PAGE_SIZE`](Self::MAX_PAGE_SIZE). Another number is refused
        /// with `InvalidArgument` when the page is asked for.
        with_page_size(page_size: usize);
    }

    /// The request, if its prefix and its page size are allowed.
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

    /// For authors of backends: the most entries that the page may have.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size.clamp(1, Self::MAX_PAGE_SIZE)
    }

    /// For authors of backends: whether a key with this text belongs to the listing.
    #[must_use]
    pub fn includes(&self, key: &str) -> bool {
        key.starts_with(&*self.prefix)
    }

    /// For authors of backends: the prefix of the keys; empty for all keys. Keep it out of logs.
    #[must_use]
    pub fn expose_prefix(&self) -> &str {
        &self.prefix
    }

    /// For authors of backends: the first text, in the order of the bytes, after all texts with the prefix. If there is
    /// none, a text that is after every key. Keep it out of logs.
    ///
    /// ```
    /// use syncguard_core::inventory::ListRequest;
    ///
    /// assert_eq!(ListRequest::new().with_prefix("job:").expose_end(), "job;");
    /// assert!(ListRequest::new().expose_end().as_str() > "payment:7");
    /// ```
    #[must_use]
    pub fn expose_end(&self) -> String {
        end_of(&self.prefix)
    }

    /// For authors of backends: the name of the last entry before the page; `None` for the first page. Keep it
    /// out of logs.
    #[must_use]
    pub fn expose_place(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// For authors of backends whose names are the keys: the first name, in the order of the bytes, that can be in
    /// the page. Keep it out of logs.
    #[must_use]
    pub fn expose_start(&self) -> &str {
        self.expose_place().unwrap_or_default().max(self.expose_prefix())
    }

    /// For authors of backends: the request for the page after the entry with this name. The name may contain the
    /// key.
    #[must_use]
    pub fn behind(&self, place: impl Into<Arc<str>>) -> Self {
        Self { after: Some(place.into()), kept: None, ..self.clone() }
    }

    /// For authors of backends: keeps a value that saves work for the next page. A backend that does not find it
    /// starts from the [place](Self::expose_place).
    #[must_use]
    pub fn keeping(mut self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// For authors of backends: the kept value, if it has this type.
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
            .field("prefix", &(!self.prefix.is_empty()).then(|| hash_key(&self.prefix)))
            .field("page_size", &self.page_size)
            .field("place", &self.after.as_deref().map(hash_key))
            .finish_non_exhaustive()
    }
}
