//! A backend without signals.

use syncguard_core::contract::{KeyWatch, WatchRequest};
use syncguard_core::{LockBackend, forward};

/// A wrapper that removes the signals of a backend.
#[derive(Clone)]
pub(crate) struct Deaf<B>(pub(crate) B);

impl<B: LockBackend> LockBackend for Deaf<B> {
    type Fence = B::Fence;

    async fn watch(&self, _request: WatchRequest) -> Option<KeyWatch> {
        None
    }

    forward!(0: acquire, release, extend, is_locked, lookup, capabilities, client_state);
}
