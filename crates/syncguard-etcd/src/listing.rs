//! Listing locks and fence counters.

use std::sync::Arc;

use syncguard_core::authoring::{Attempt, Fault, LockInventory, cancel};
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo, Timestamp};

use crate::backend::EtcdBackend;
use crate::error::{self, Rpc};
use crate::inner::Inner;
use crate::layout::Layout;
use crate::record::{self, Held};
use crate::txn;
use crate::wire::{KeyValue, RangeRequest};

/// A page is one range of names, which are in the order of the keys. It also has the locks that have expired.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for EtcdBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        list(&self.0, Layout::lock, &request, |name, key, stored, now| {
            let record = Held::read(name, key, stored)?.record;
            Ok(record.is_live(now).then(|| record.into_info()))
        })
        .await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        list(&self.0, Layout::counter, &request, |name, key, stored, _| {
            let counter = record::counter(name, Some(&stored))?;
            counter.map(|last| FenceCounter::stored(key, last)).transpose()
        })
        .await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        let inner = &self.0;
        let name = inner.layout.counter(key.expose());
        let read = inner.attempts().run(async |attempt| inner.counter(&name, &attempt).await);
        cancel::read(None, Box::pin(read)).await.map_err(|error| error.with_key(&key))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let inner = Arc::clone(&self.0);
        let raise = async move {
            let name = inner.layout.counter(key.expose());
            let once = |attempt| raise(&inner, &name, at_least, attempt);
            inner.attempts().run(once).await.map_err(|error| error.with_key(&key))
        };
        cancel::finish(None, raise).await
    }
}

/// Reads a record by its name and its key; `None` if it does not belong to the page at this time.
type Entry<T> = fn(&str, &str, KeyValue, Timestamp) -> Result<Option<T>, LockError>;

/// Reads a page of locks or of counters. `name` makes their names of keys, or of the beginnings of keys.
async fn list<T>(
    inner: &Inner,
    name: fn(&Layout, &str) -> String,
    request: &ListRequest,
    entry: Entry<T>,
) -> Result<Page<T>, LockError> {
    let once = async |attempt: Attempt| {
        let layout = &inner.layout;
        let first = || name(layout, request.expose_start()).into_bytes();
        let mut wanted = RangeRequest {
            // A stranger's name may be no text, so the place is kept as bytes.
            key: request.kept::<Vec<u8>>().map_or_else(first, |from| from.to_vec()),
            range_end: name(layout, &request.expose_end()).into_bytes(),
            limit: i64::try_from(request.page_size()).unwrap_or(i64::MAX),
            ..RangeRequest::default()
        };
        let found = loop {
            match inner.txn(Rpc::Read, &txn::read_range(wanted.clone()), &attempt).await {
                // Half of the page, and in the end the name of one record, which is corrupt without its value.
                Err(fault) if error::is_too_large(&fault) && !wanted.keys_only => {
                    wanted.keys_only = wanted.limit == 1;
                    wanted.limit = (wanted.limit / 2).max(1);
                }
                answer => break txn::range(answer?)?,
            }
        };
        let next = found.kvs.last().filter(|_| found.more).map(|last| {
            let behind = [&*last.key, &[0]].concat();
            request.behind(String::from_utf8_lossy(&last.key)).keeping(Arc::new(behind))
        });
        let (mut page, now) = (Page::new(next), inner.time().await?.earliest);
        for stored in found.kvs {
            let name = String::from_utf8_lossy(&stored.key).into_owned();
            let key = layout.key_in(&stored.key).unwrap_or_default().to_owned();
            if let Some(entry) = entry(&name, &key, stored, now).transpose() {
                page.push(&name, entry);
            }
        }
        Ok(page)
    };
    cancel::read(None, Box::pin(inner.attempts().run(once))).await
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
    inner.count(name, seen, at_least, &attempt).await?;
    Ok(at_least)
}
