//! A backend as another process would use it.

use syncguard_core::shared::ClientState;
use syncguard_core::{LockBackend, forward};

/// A backend whose callers have queues of their own, so that they meet the callers of other handles only in the
/// store.
#[derive(Clone)]
pub(crate) struct OtherProcess<B> {
    backend: B,
    state: ClientState,
}

impl<B: LockBackend> OtherProcess<B> {
    pub(crate) fn new(backend: B) -> Self {
        let state = backend.client_state().clone().with_own_queues();
        Self { backend, state }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for OtherProcess<B> {
    type Fence = B::Fence;

    fn client_state(&self) -> &ClientState {
        &self.state
    }

    forward!(backend: acquire, release, extend, is_locked, lookup, watch, health, inventory, capabilities);
}
