//! Listing locks and fence counters.

use std::sync::Arc;

use syncguard_core::authoring::LockInventory;
use syncguard_core::authoring::cancel;
use syncguard_core::authoring::corrupt_record;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};

use crate::backend::EtcdBackend;
use crate::error::{Fault, Rpc};
use crate::inner::{Changed, Inner};
use crate::record::{self, Held, digits, if_counter};
use crate::retry::Attempt;
use crate::txn::{self, Change};
use crate::wire::RangeResponse;

/// A page is one range of names, which are in the order of the keys. It also has the locks that have expired.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for EtcdBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        let inner = self.inner();
        let read = inner.attempts().run(|attempt| list_locks(inner, &request, attempt));
        cancel::read(None, Box::pin(read)).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        let inner = self.inner();
        let read = inner.attempts().run(|attempt| list_counters(inner, &request, attempt));
        cancel::read(None, Box::pin(read)).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        let inner = self.inner();
        let name = inner.layout.counter(&key);
        let read = inner.attempts().run(async |attempt| inner.counter(&name, &attempt).await);
        cancel::read(None, Box::pin(read)).await.map_err(|error| error.with_key(&key))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let inner = Arc::clone(self.inner());
        let raise = async move {
            let name = inner.layout.counter(&key);
            let once = |attempt| raise(&inner, &name, at_least, attempt);
            inner.attempts().run(once).await.map_err(|error| error.with_key(&key))
        };
        cancel::finish(None, raise).await
    }
}

async fn list_locks(
    inner: &Inner,
    request: &ListRequest,
    attempt: Attempt,
) -> Result<Page<LockInfo>, Fault> {
    let layout = &inner.layout;
    let range = range(inner, |text| layout.lock_name(text), request, &attempt).await?;
    let mut page = Page::new(next(inner, &range, request));
    let now = inner.now()?;
    for stored in range.kvs {
        let name = String::from_utf8_lossy(&stored.key).into_owned();
        let text = layout.text_of(name.as_bytes()).unwrap_or_default();
        match Held::read(&name, text, stored) {
            Ok(held) if !held.is_live(now) => {}
            held => page.push(&name, held.map(|held| held.record.into_info())),
        }
    }
    Ok(page)
}

async fn list_counters(
    inner: &Inner,
    request: &ListRequest,
    attempt: Attempt,
) -> Result<Page<FenceCounter>, Fault> {
    let layout = &inner.layout;
    let range = range(inner, |text| layout.counter_name(text), request, &attempt).await?;
    let mut page = Page::new(next(inner, &range, request));
    for stored in range.kvs {
        let name = String::from_utf8_lossy(&stored.key).into_owned();
        let key = layout.text_of(name.as_bytes()).and_then(|text| Key::new(text).ok());
        let entry =
            key.ok_or_else(|| corrupt_record(&name, "its name has no key")).and_then(|key| {
                let counter = record::counter(&name, Some(&stored))?.unwrap_or(Fence::ZERO);
                Ok(FenceCounter::new(key, counter))
            });
        page.push(&name, entry);
    }
    Ok(page)
}

async fn range(
    inner: &Inner,
    name: impl Fn(&str) -> String,
    request: &ListRequest,
    attempt: &Attempt,
) -> Result<RangeResponse, Fault> {
    let start = request.expose_start();
    let mut from = name(start);
    if request.expose_place() == Some(start) {
        // The first name behind this one.
        from.push('\0');
    }
    let read = txn::read_range(from, name(&request.expose_end()), request.page_size());
    Ok(txn::range(inner.txn(Rpc::Read, &read, attempt).await?)?)
}

fn next(inner: &Inner, range: &RangeResponse, request: &ListRequest) -> Option<ListRequest> {
    let last = range.kvs.last().filter(|_| range.more)?;
    Some(request.behind(inner.layout.text_of(&last.key)?))
}

/// Sends one read, and one transaction if the counter must be raised. The transaction states the counter that was read.
/// So it is refused after an acquire in between, and an acquire that has read the counter before is refused after it.
async fn raise(
    inner: &Inner,
    name: &str,
    at_least: Fence,
    attempt: Attempt,
) -> Result<Fence, Fault> {
    let seen = inner.counter(name, &attempt).await?;
    if let Some(enough) = seen.filter(|seen| *seen >= at_least) {
        return Ok(enough);
    }
    let change = if_counter(Change::new(), name, seen).put(name, digits(at_least)).or_read(&[]);
    match inner.change::<0>(change, &attempt).await? {
        Changed::Done(_) => Ok(at_least),
        Changed::Refused([]) => Err(Fault::conflict()),
    }
}
