//! Lists locks and fence counters.

use std::sync::Arc;

use syncguard_core::authoring::LockInventory;
use syncguard_core::authoring::cancel::{self, Caller};
use syncguard_core::authoring::hash_key;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};
use tokio_postgres::Row;

use crate::backend::PostgresBackend;
use crate::inner::Inner;
use crate::names;
use crate::pool::{Answer, Lane, Param};
use crate::record::{Record, column};
use crate::statements::Statement;

/// A page is one statement along the primary key, in the order of the column's collation. With the collation `C`
/// that is the order of the bytes. With other collations, a listing with a prefix also reads the rows between
/// the rows that it shows.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for PostgresBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        let read = |caller| list_locks(Arc::clone(self.inner()), request, caller);
        cancel::finish_read(None, read).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        let read = |caller| list_counters(Arc::clone(self.inner()), request, caller);
        cancel::finish_read(None, read).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        let read = |caller| counter(Arc::clone(self.inner()), key, caller);
        cancel::finish_read(None, read).await
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        cancel::finish(None, raise(Arc::clone(self.inner()), key, at_least)).await
    }
}

async fn list_locks(
    inner: Arc<Inner>,
    request: ListRequest,
    caller: Caller,
) -> Result<Page<LockInfo>, LockError> {
    let rows = rows(&inner, &inner.statements.list_locks, &request, "", &caller).await?;
    let mut page = Page::new(next(&rows, &request, "key", "")?);
    for row in &rows {
        if let Some(info) = Record::info_from_row(row).transpose() {
            page.push(column(row, "key")?, info);
        }
    }
    Ok(page)
}

async fn list_counters(
    inner: Arc<Inner>,
    request: ListRequest,
    caller: Caller,
) -> Result<Page<FenceCounter>, LockError> {
    let (statement, name_prefix) = (&inner.statements.list_counters, names::FENCE_PREFIX);
    let rows = rows(&inner, statement, &request, name_prefix, &caller).await?;
    let mut page = Page::new(next(&rows, &request, "fence_key", name_prefix)?);
    for row in &rows {
        let name: &str = column(row, "fence_key")?;
        let last = column::<i64>(row, "fence")?;
        page.push(name, read_counter(name, last));
    }
    Ok(page)
}

fn read_counter(name: &str, last: i64) -> Result<FenceCounter, LockError> {
    let key = name.strip_prefix(names::FENCE_PREFIX).unwrap_or_default();
    FenceCounter::stored(key, Fence::try_from(last)?)
}

async fn rows(
    inner: &Inner,
    statement: &Statement,
    request: &ListRequest,
    name_prefix: &str,
    caller: &Caller,
) -> Result<Vec<Row>, LockError> {
    let named = |text: &str| [name_prefix, text].concat();
    let start = named(request.expose_start());
    let place = request.expose_place().map_or_else(String::new, named);
    let (end, prefix) = (named(&request.expose_end()), named(request.expose_prefix()));
    let parameters = [
        Param::Text(&start),
        Param::Text(&place),
        Param::Text(&end),
        Param::Text(&prefix),
        Param::Number(i64::try_from(request.page_size()).unwrap_or(i64::MAX)),
    ];
    let Answer { row, more, .. } =
        inner.query(Lane::Contender, caller, statement, &parameters).await?;
    Ok(row.into_iter().chain(more).collect())
}

fn next(
    rows: &[Row],
    request: &ListRequest,
    names: &str,
    name_prefix: &str,
) -> Result<Option<ListRequest>, LockError> {
    let Some(last) = rows.last().filter(|_| rows.len() >= request.page_size()) else {
        return Ok(None);
    };
    let name: &str = column(last, names)?;
    Ok(Some(request.behind(name.strip_prefix(name_prefix).unwrap_or(name))))
}

async fn counter(inner: Arc<Inner>, key: Key, caller: Caller) -> Result<Option<Fence>, LockError> {
    let fence_key = names::fence_name(&names::lock_name(&key)?)?;
    let parameters = [Param::Text(fence_key.expose())];
    let answer =
        inner.query(Lane::Contender, &caller, &inner.statements.counter, &parameters).await;
    let answer = answer.map_err(|error| error.with_key(&key))?;
    let Some(row) = answer.row else { return Ok(None) };
    fence(column(&row, "fence")?, fence_key.expose()).map(Some)
}

async fn raise(inner: Arc<Inner>, key: Key, at_least: Fence) -> Result<Fence, LockError> {
    let caller = Caller::new(None);
    let fence_key = names::fence_name(&names::lock_name(&key)?)?;
    let parameters = [
        Param::Text(fence_key.expose()),
        Param::Text(key.expose()),
        Param::Number(at_least.as_i64()),
    ];
    let statement = &inner.statements.raise_counter;
    let answer = inner.query(Lane::Contender, &caller, statement, &parameters).await;
    let answer = answer.map_err(|error| error.with_key(&key))?;
    // No row: the counter is negative.
    let raised = answer.row.map_or(Ok(-1), |row| column(&row, "fence"))?;
    fence(raised, fence_key.expose())
}

fn fence(counter: i64, fence_key: &str) -> Result<Fence, LockError> {
    if counter < 0 {
        let hash = hash_key(fence_key);
        return Err(LockError::internal(format!("corrupt fence counter {hash}: it is negative")));
    }
    // A counter at the end of the range is exhausted, not corrupt.
    Fence::try_from(counter).map_err(|_| Fence::exhausted())
}
