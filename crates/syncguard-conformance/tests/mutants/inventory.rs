//! The way to the store, for looking over all locks.

use syncguard_core::authoring::cancel;
use syncguard_core::inventory::{
    CounterPage, CounterRequest, Cursor, ListRequest, LockInventory, LockPage, RaiseRequest,
};
use syncguard_core::{Fence, LockError};

use crate::backend::{Backend, travel};
use crate::flaws::Flaw;

#[deny(clippy::missing_trait_methods)]
impl LockInventory for Backend {
    async fn list_locks(&self, request: ListRequest) -> Result<LockPage, LockError> {
        let mut request = self.visible_token(request, |request| &mut request.cancellation);
        cancel::check(request.cancellation.as_ref())?;
        travel().await;
        if self.has(Flaw::uses_up_cursors)
            && let Some(cursor) = &request.after
            && !self.with(|store, _| store.use_up(cursor.expose_place()))
        {
            return Ok(LockPage::new(Vec::new(), Vec::new(), None));
        }
        if self.has(Flaw::lists_the_last_of_a_page_twice) {
            request.after = request.after.map(|cursor| {
                let mut before = cursor.expose_place().to_owned();
                before.pop();
                Cursor::behind(before)
            });
        }
        self.with(|store, now| store.list_locks(&request, now))
    }

    async fn list_counters(&self, request: ListRequest) -> Result<CounterPage, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        cancel::check(request.cancellation.as_ref())?;
        travel().await;
        self.with(|store, _| store.list_counters(&request))
    }

    async fn fence_counter(&self, request: CounterRequest) -> Result<Option<Fence>, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        cancel::check(request.cancellation.as_ref())?;
        travel().await;
        self.with(|store, _| store.fence_counter(&request.key))
    }

    async fn raise_counter(&self, request: RaiseRequest) -> Result<Fence, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        let (backend, token) = (self.handle(), request.cancellation.clone());
        let RaiseRequest { key, at_least, .. } = request;
        let operation = async move {
            travel().await;
            if !backend.has(Flaw::a_raise_reads_and_writes_later) {
                return backend.with(|store, _| store.raise(&key, at_least));
            }
            let found = backend.with(|store, _| store.fence_counter(&key))?;
            travel().await;
            let raised = found.unwrap_or(Fence::ZERO).max(at_least);
            backend.with(|store, _| store.set_fence_counter(&key, raised));
            Ok(raised)
        };
        if self.has(Flaw::sends_before_it_looks_at_the_token) {
            let answer = operation.await;
            cancel::check(token.as_ref())?;
            return answer;
        }
        cancel::finish(token.as_ref(), operation).await
    }
}
