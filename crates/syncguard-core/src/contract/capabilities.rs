//! The capabilities of a backend.

use crate::value::FenceToken;

/// The clock that decides when a lock expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeAuthority {
    /// The store's clock: the clients' clocks do not matter.
    Server,
    /// The client that asks decides, by the store's time as its answers tell it, or by its own clock where they tell none.
    Client,
}

/// The capabilities of a backend, known at run time.
///
/// The type [`LockBackend::Fence`](crate::LockBackend::Fence) says at compile time too whether the backend fences.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendCapabilities {
    /// The backend's short name: `"redis"`, `"postgres"`, `"etcd"`, `"firestore"`, `"object-store"`, `"sqlite"`,
    /// `"memory"` or an author's own.
    pub backend: &'static str,
    /// True if every acquisition carries a fence.
    pub supports_fencing: bool,
    /// The clock that decides when a lock expires.
    pub time_authority: TimeAuthority,
    /// True if acquires with a [`FenceWindow`](crate::authoring::recipes::FenceWindow) are granted only within it, and a release raises the
    /// counter that it [names](super::ReleaseRequest::with_counter_at_least).
    pub supports_fence_windows: bool,
}

impl BackendCapabilities {
    /// The capabilities of a backend whose acquisitions carry `F`.
    ///
    /// ```
    /// use syncguard_core::contract::{BackendCapabilities, TimeAuthority};
    /// use syncguard_core::Fence;
    ///
    /// let capabilities = BackendCapabilities::new::<Fence>("own", TimeAuthority::Server);
    /// assert!(capabilities.supports_fencing);
    /// ```
    #[must_use]
    pub const fn new<F: FenceToken>(backend: &'static str, time_authority: TimeAuthority) -> Self {
        Self {
            backend,
            supports_fencing: F::SUPPORTED,
            time_authority,
            supports_fence_windows: false,
        }
    }

    /// The same capabilities, and the backend keeps [fence windows](crate::authoring::recipes::FenceWindow). Default: it does not.
    #[must_use]
    pub const fn with_fence_windows(mut self) -> Self {
        self.supports_fence_windows = true;
        self
    }
}
