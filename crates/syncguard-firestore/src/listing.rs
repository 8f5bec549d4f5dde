//! Listing locks and fence counters.

use std::sync::Arc;

use gcloud_sdk::google::firestore::v1::Document;
use syncguard_core::authoring::LockInventory;
use syncguard_core::authoring::cancel;
use syncguard_core::authoring::hash_key;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};

use crate::backend::FirestoreBackend;
use crate::document::{Counter, KEY, KEY_DEBUG, Record, key_of, put};
use crate::error::Fault;
use crate::inner::Inner;
use crate::names::storage_key_of;
use crate::query;
use crate::retry::Attempt;

/// A page is one query in the order of the keys. It uses the index that Firestore makes automatically for
/// the field `key` of locks and `keyDebug` of counters. The query misses documents without this field. It
/// also reads the documents of expired locks.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for FirestoreBackend {
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
        let read = async {
            let name = inner.layout.names(&key)?.fence;
            inner.attempts().run(async |attempt| inner.counter(&name, &attempt).await).await
        };
        let counter =
            cancel::read(None, Box::pin(read)).await.map_err(|error| error.with_key(&key))?;
        Ok(counter.map(|counter| counter.last))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let inner = Arc::clone(self.inner());
        let raise = async move {
            let subject = |error: LockError| error.with_key(&key);
            let name = inner.layout.names(&key).map_err(subject)?.fence;
            let once = |attempt| raise(&inner, &key, &name, at_least, attempt);
            inner.attempts().run(once).await.map_err(subject)
        };
        cancel::finish(None, raise).await
    }
}

async fn list_locks(
    inner: &Inner,
    request: &ListRequest,
    attempt: Attempt,
) -> Result<Page<LockInfo>, Fault> {
    let collection = inner.layout.lock_parent();
    let documents = documents(inner, collection, KEY, request, &attempt).await?;
    let now = inner.now()?;
    let mut page = Page::new(next(&documents, KEY, request));
    for document in documents {
        let hash = hash_key(storage_key_of(&document.name));
        match Record::read(document) {
            Ok(record) if record.is_live(now) => page.entries.push(record.into_info()),
            Ok(_) => {}
            Err(_) => page.corrupt.push(hash),
        }
    }
    Ok(page)
}

async fn list_counters(
    inner: &Inner,
    request: &ListRequest,
    attempt: Attempt,
) -> Result<Page<FenceCounter>, Fault> {
    let collection = inner.layout.fence_parent();
    let documents = documents(inner, collection, KEY_DEBUG, request, &attempt).await?;
    let mut page = Page::new(next(&documents, KEY_DEBUG, request));
    for document in documents {
        let hash = hash_key(storage_key_of(&document.name));
        let key = key_of(&document, KEY_DEBUG).and_then(|key| Key::new(key).ok());
        match (key, Counter::read(document)) {
            (Some(key), Ok(counter)) => {
                page.entries.push(FenceCounter::new(key, counter.last));
            }
            _ => page.corrupt.push(hash),
        }
    }
    Ok(page)
}

async fn documents(
    inner: &Inner,
    (parent, collection): (String, &str),
    field: &str,
    request: &ListRequest,
    attempt: &Attempt,
) -> Result<Vec<Document>, Fault> {
    let query = query::page(collection, field, request);
    inner.client.query(parent, query, attempt.call_deadline()).await
}

fn next(documents: &[Document], field: &str, request: &ListRequest) -> Option<ListRequest> {
    let last = documents.last().filter(|_| documents.len() >= request.page_size())?;
    Some(request.behind(key_of(last, field)?))
}

/// Sends one read, and one commit if the counter must be raised. The commit states the version that was
/// read. So it fails after an acquire in between, and an acquire that has read the counter before the
/// commit fails after it.
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
