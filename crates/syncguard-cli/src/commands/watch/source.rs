//! The locks to watch.

use std::time::Duration;

use syncguard::DynBackend;
use tokio::time::sleep;

use crate::commands::listing::{self, Listing};
use crate::exit::Failure;

/// The locks of a store that are read again and again.
pub(super) struct Source {
    backend: DynBackend,
    prefix: String,
    interval: Duration,
}

impl Source {
    pub(super) fn new(backend: DynBackend, prefix: &str, interval: Duration) -> Self {
        Self { backend, prefix: prefix.to_owned(), interval }
    }

    pub(super) async fn read(&self) -> Result<Listing, Failure> {
        listing::read(&self.backend, &self.prefix).await
    }

    /// The next listing, after the interval.
    pub(super) async fn next(&self) -> Result<Listing, Failure> {
        sleep(self.interval).await;
        self.read().await
    }

    #[cfg(feature = "terminal")]
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    #[cfg(feature = "terminal")]
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }
}
