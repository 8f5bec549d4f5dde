//! Listing locks and fence counters.

use std::sync::Arc;

use gcloud_sdk::google::firestore::v1::Document;
use syncguard_core::authoring::{Attempt, Fault, LockInventory, cancel};
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo, Timestamp};

use crate::backend::FirestoreBackend;
use crate::document::{Counter, KEY, KEY_DEBUG, Record, key_of, put};
use crate::inner::Inner;
use crate::names::{Layout, storage_key_of};
use crate::query;

/// A page is one query: of all keys in the order of the documents' names, and of a prefix in the order of the keys. The latter
/// uses the index that Firestore makes automatically for the field `key` of locks and `keyDebug` of counters, and misses
/// documents without this field. A page also reads the documents of expired locks.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for FirestoreBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        list(&self.0, Layout::lock_parent, KEY, &request, |document, now| {
            let record = Record::read(document)?;
            Ok(record.is_live(now).then(|| record.into_info()))
        })
        .await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        list(&self.0, Layout::fence_parent, KEY_DEBUG, &request, |document, _| {
            let key = key_of(&document, KEY_DEBUG).unwrap_or_default().to_owned();
            FenceCounter::stored(&key, Counter::read(document)?.last).map(Some)
        })
        .await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        let inner = &self.0;
        let read = async {
            let name = inner.layout.names(&key)?.fence;
            inner.attempts().run(async |attempt| inner.counter(&name, &attempt).await).await
        };
        let counter =
            cancel::read(None, Box::pin(read)).await.map_err(|error| error.with_key(&key))?;
        Ok(counter.map(|counter| counter.last))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let inner = Arc::clone(&self.0);
        let raise = async move {
            let subject = |error: LockError| error.with_key(&key);
            let name = inner.layout.names(&key).map_err(subject)?.fence;
            let once = |attempt| raise(&inner, &key, &name, at_least, attempt);
            inner.attempts().run(once).await.map_err(subject)
        };
        cancel::finish(None, raise).await
    }
}

/// Reads a document; `None` if it does not belong to the page at this time.
type Entry<T> = fn(Document, Timestamp) -> Result<Option<T>, LockError>;

/// Reads a page of a collection; this field of its documents holds the key.
async fn list<T>(
    inner: &Inner,
    parent: fn(&Layout) -> (String, &str),
    field: &str,
    request: &ListRequest,
    entry: Entry<T>,
) -> Result<Page<T>, LockError> {
    let once = async |attempt: Attempt| {
        let (parent, collection) = parent(&inner.layout);
        let query = query::page(collection, field, request);
        let documents = inner.client.query(parent, query, attempt.call_deadline()).await?;
        let last = documents.last().filter(|_| documents.len() >= request.page_size());
        let next = last.and_then(|last| query::behind(last, field, request));
        let (mut page, now) = (Page::new(next), inner.time()?.earliest);
        for document in documents {
            let name = storage_key_of(&document.name).to_owned();
            if let Some(entry) = entry(document, now).transpose() {
                page.push(&name, entry);
            }
        }
        Ok(page)
    };
    cancel::read(None, Box::pin(inner.attempts().run(once))).await
}

/// Sends one read, and one commit if the counter must be raised. The commit states the version that was read. So it
/// fails after an acquire in between, and an acquire that has read the counter before the commit fails after it.
async fn raise(
    inner: &Inner,
    key: &Key,
    name: &str,
    at_least: Fence,
    attempt: Attempt,
) -> Result<Fence, Fault> {
    let counter = inner.counter(name, &attempt).await?;
    if let Some(counter) = counter.as_ref().filter(|counter| counter.last >= at_least) {
        return Ok(counter.last);
    }
    let raised = Counter::document(name.to_owned(), key, at_least);
    let write = put(raised, counter.map(|counter| counter.version));
    inner.commit(vec![write], &attempt).await?;
    Ok(at_least)
}
