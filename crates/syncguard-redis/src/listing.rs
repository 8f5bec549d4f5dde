//! The inventory: pages of locks and fence counters.

use std::collections::BTreeMap;
use std::sync::Arc;

use fred::types::Value;
use fred::types::scripts::Script;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use syncguard_core::authoring::LockInventory;
use syncguard_core::authoring::cancel;
use syncguard_core::authoring::hash_key;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};
use tokio::time::Instant;

use crate::backend::RedisBackend;
use crate::client::{Bound, OnLoss};
use crate::driver::{Call, Target, number};
use crate::inner::Inner;
use crate::names::Section;
use crate::record_name::{RecordKind, RecordName};
use crate::sweep::page;
use crate::{reply, scripts};

/// Redis keeps its keys in no order. So the first page sweeps over the whole keyspace, and keeps up to 100 000 names in
/// the request for the next page, in the order of the keys. When these are used up, it sweeps again for more. Each page
/// then reads its records. See [the guide](crate::guide#listing-all-locks).
#[deny(clippy::missing_trait_methods)]
impl LockInventory for RedisBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        cancel::read(None, list_locks(self.inner(), &request)).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        cancel::read(None, list_counters(self.inner(), &request)).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        cancel::read(None, counter(self.inner(), &key)).await.map_err(|error| error.with_key(&key))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let inner = Arc::clone(self.inner());
        cancel::finish(None, async move {
            raise(&inner, &key, at_least).await.map_err(|error| error.with_key(&key))
        })
        .await
    }
}

async fn list_locks(inner: &Inner, request: &ListRequest) -> Result<Page<LockInfo>, LockError> {
    let section = |record| inner.layout.section_of_record(record);
    let (names, next) = page(inner, RecordKind::Lock, request).await?;
    let mut page = Page::new(next);
    for (record, answer) in read(inner, &scripts::LIST_LOCKS, &names).await? {
        match reply::found(answer, Some(section(record)), &record.name) {
            Ok(Some(info)) if section(record).has_requested_prefix(request, record, &info) => {
                page.entries.push(info);
            }
            Ok(_) => {}
            // A hashed name may belong to another kind of record.
            Err(_) if section(record).may_be_no_lock(record) => {}
            Err(_) => page.corrupt.push(hash_key(&record.name)),
        }
    }
    Ok(page)
}

async fn list_counters(
    inner: &Inner,
    request: &ListRequest,
) -> Result<Page<FenceCounter>, LockError> {
    inner.layout.sections().iter().try_for_each(Section::refuse_hashed_counters)?;
    let (names, next) = page(inner, RecordKind::Counter, request).await?;
    let mut page = Page::new(next);
    for (record, answer) in read(inner, &scripts::COUNTERS, &names).await? {
        if let Some(last) = reply::counter(&answer).transpose() {
            let counter = last.and_then(|last| FenceCounter::stored(record.user_key(), last));
            page.push(&record.name, counter);
        }
    }
    Ok(page)
}

/// Reads the records with a script. The answers are in the order of the names.
async fn read<'n>(
    inner: &Inner,
    script: &'static Script,
    names: &'n [RecordName],
) -> Result<Vec<(&'n RecordName, Value)>, LockError> {
    /// Other commands run between two chunks.
    const AT_ONCE: usize = 200;
    // A script can read the records of one slot only.
    let mut sections: BTreeMap<usize, Vec<(usize, &RecordName)>> = BTreeMap::new();
    for (place, record) in names.iter().enumerate() {
        sections.entry(record.section).or_default().push((place, record));
    }
    let chunks = sections.values().flat_map(|names| names.chunks(AT_ONCE));
    let mut reading: FuturesUnordered<_> =
        chunks.map(|chunk| read_chunk(inner, script, chunk)).collect();
    let mut answers = Vec::with_capacity(names.len());
    while let Some(answer) = reading.next().await {
        answers.extend(answer?);
    }
    answers.sort_unstable_by_key(|(place, _)| *place);
    Ok(names.iter().zip(answers.into_iter().map(|(_, answer)| answer)).collect())
}

/// Reads records of one section. The numbers are their positions among all names.
async fn read_chunk(
    inner: &Inner,
    script: &'static Script,
    chunk: &[(usize, &RecordName)],
) -> Result<Vec<(usize, Value)>, LockError> {
    let Some((_, first)) = chunk.first() else { return Ok(Vec::new()) };
    let target = inner.layout.section_of_record(first).target();
    let names: Vec<&str> = chunk.iter().map(|(_, record)| record.name.as_str()).collect();
    match run(inner, target, script, &names).await? {
        Value::Array(found) if found.len() == chunk.len() => {
            Ok(chunk.iter().map(|(place, _)| *place).zip(found).collect())
        }
        _ => Err(reply::unintelligible()),
    }
}

/// Runs a script that reads the records with these names.
async fn run(
    inner: &Inner,
    target: Target,
    script: &'static Script,
    names: &[&str],
) -> Result<Value, LockError> {
    let call = || Ok(Call::new(script).keys(names.iter().copied()));
    inner.connections.read(target, call).await
}

async fn counter(inner: &Inner, key: &Key) -> Result<Option<Fence>, LockError> {
    inner.refuse_cluster_node().await?;
    let section = inner.layout.section_of(key)?;
    let name = section.names(key)?.fence;
    match run(inner, section.target(), &scripts::COUNTERS, &[&name]).await? {
        Value::Array(found) if found.len() == 1 => reply::counter(&found[0]),
        _ => Err(reply::unintelligible()),
    }
}

async fn raise(inner: &Inner, key: &Key, at_least: Fence) -> Result<Fence, LockError> {
    inner.refuse_cluster_node().await?;
    let section = inner.layout.section_of(key)?;
    let name = section.names(key)?.fence;
    let call = || {
        let call = Call::new(&scripts::RAISE_COUNTER).keys([name.as_str()]);
        Ok(call.arguments([number(at_least.get())]))
    };
    let bound = Bound::Usual(Instant::now() + inner.connections.command_timeout());
    let sent = inner
        .connections
        .send(section.target(), call, inner.wait_replicas, bound, OnLoss::Again)
        .await;
    let (value, replicated) = sent.result?;
    let raised = reply::counter(&value)?.ok_or_else(reply::unintelligible)?;
    replicated.map_err(LockError::with_unknown_outcome)?;
    Ok(raised)
}
