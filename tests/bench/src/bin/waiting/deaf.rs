//! A backend that hears no signals.

use syncguard_core::contract::{ClientState, KeyWatch, WatchRequest};
use syncguard_core::{LockBackend, forward};

/// Another backend, which cannot tell when a key may have become free.
#[derive(Clone)]
pub(crate) struct Deaf<B> {
    inner: B,
    state: ClientState,
}

impl<B: LockBackend> Deaf<B> {
    pub(crate) fn new(inner: B) -> Self {
        let state = inner.client_state().clone();
        Self { inner, state }
    }

    /// For a caller that stands in no line with others of this process.
    pub(crate) fn with_own_lines(&self) -> Self {
        Self { inner: self.inner.clone(), state: self.state.clone().with_own_lines() }
    }
}

impl<B: LockBackend> LockBackend for Deaf<B> {
    type Fence = B::Fence;

    async fn watch(&self, _request: WatchRequest) -> Option<KeyWatch> {
        None
    }

    fn client_state(&self) -> &ClientState {
        &self.state
    }

    forward!(inner: acquire, release, extend, is_locked, lookup, capabilities);
}
