//! The locks to watch.

use std::cell::OnceCell;
use std::time::Duration;

use syncguard::DynBackend;
use tokio::time::sleep;

use crate::commands::listing::{self, Listing};
use crate::exit::Failure;
use crate::store::Store;

/// The locks of a store that are read again and again.
pub(super) struct Source<'a> {
    store: &'a Store,
    backend: OnceCell<DynBackend>,
    prefix: &'a str,
    interval: Duration,
}

impl<'a> Source<'a> {
    pub(super) fn new(store: &'a Store, prefix: &'a str, interval: Duration) -> Self {
        Self { store, backend: OnceCell::new(), prefix, interval }
    }

    pub(super) async fn read(&self) -> Result<Listing, Failure> {
        if let Some(backend) = self.backend.get() {
            return listing::read(backend, self.prefix).await;
        }
        // A file that does not exist is empty until a process makes it.
        let is_missing = self.store.missing_file().is_some();
        let backend = self.store.connect().await?;
        if is_missing {
            return listing::read(&backend, self.prefix).await;
        }
        listing::read(self.backend.get_or_init(|| backend), self.prefix).await
    }

    /// The next listing, after the interval.
    pub(super) async fn next(&self) -> Result<Listing, Failure> {
        sleep(self.interval).await;
        self.read().await
    }

    #[cfg(feature = "terminal")]
    pub(super) fn prefix(&self) -> &str {
        self.prefix
    }

    #[cfg(feature = "terminal")]
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }
}
