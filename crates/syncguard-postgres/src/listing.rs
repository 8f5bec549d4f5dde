//! Looking over all locks.

use std::sync::Arc;

use syncguard_core::authoring::cancel::{self, Caller};
use syncguard_core::authoring::hash_key;
use syncguard_core::inventory::{
    CounterPage, CounterRequest, Cursor, FenceCounter, ListRequest, LockInventory, LockPage,
    RaiseRequest,
};
use syncguard_core::{Fence, Key, LockError};
use tokio_postgres::Row;

use crate::backend::PostgresBackend;
use crate::inner::Inner;
use crate::names;
use crate::pool::{Answer, Lane, Param};
use crate::record::{Record, column};
use crate::statements::Statement;

/// A page is one statement along the primary key, in the order of the column's collation: that of the
/// bytes in a database of the collation `C`. In others, a listing with a prefix walks over the rows between
/// those that it shows as well.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for PostgresBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<LockPage, LockError> {
        let token = request.cancellation.clone();
        let read = |caller| list_locks(Arc::clone(self.inner()), request, caller);
        cancel::finish_read(token.as_ref(), read).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<CounterPage, LockError> {
        let token = request.cancellation.clone();
        let read = |caller| list_counters(Arc::clone(self.inner()), request, caller);
        cancel::finish_read(token.as_ref(), read).await
    }

    async fn fence_counter(&self, request: CounterRequest) -> Result<Option<Fence>, LockError> {
        let token = request.cancellation.clone();
        let read = |caller| counter(Arc::clone(self.inner()), request.key, caller);
        cancel::finish_read(token.as_ref(), read).await
    }

    async fn raise_counter(&self, request: RaiseRequest) -> Result<Fence, LockError> {
        let token = request.cancellation.clone();
        cancel::finish(token.as_ref(), raise(Arc::clone(self.inner()), request)).await
    }
}

async fn list_locks(
    inner: Arc<Inner>,
    request: ListRequest,
    caller: Caller,
) -> Result<LockPage, LockError> {
    let rows = rows(&inner, &inner.statements.list_locks, &request, "", &caller).await?;
    let mut page = LockPage::new(Vec::new(), Vec::new(), None);
    for row in &rows {
        match Record::from_row(row, 0) {
            Ok(Some(record)) if record.is_live() => page.locks.push(record.into_info()),
            Ok(_) => {}
            Err(_) => page.corrupt.push(hash_key(column::<&str>(row, 0)?)),
        }
    }
    page.next = next(&rows, &request, "")?;
    Ok(page)
}

async fn list_counters(
    inner: Arc<Inner>,
    request: ListRequest,
    caller: Caller,
) -> Result<CounterPage, LockError> {
    let (statement, lead) = (&inner.statements.list_counters, names::FENCE_LEAD);
    let rows = rows(&inner, statement, &request, lead, &caller).await?;
    let mut page = CounterPage::new(Vec::new(), Vec::new(), None);
    for row in &rows {
        let name: &str = column(row, 0)?;
        let key = name.strip_prefix(lead).map(Key::new);
        match (key, Fence::try_from(column::<i64>(row, 1)?)) {
            (Some(Ok(key)), Ok(last)) => page.counters.push(FenceCounter::new(key, last)),
            _ => page.corrupt.push(hash_key(name)),
        }
    }
    page.next = next(&rows, &request, lead)?;
    Ok(page)
}

async fn rows(
    inner: &Inner,
    statement: &Statement,
    request: &ListRequest,
    lead: &str,
    caller: &Caller,
) -> Result<Vec<Row>, LockError> {
    let named = |text: &str| [lead, text].concat();
    let start = named(request.expose_start());
    let place = request.after.as_ref().map_or_else(String::new, |at| named(at.expose_place()));
    let (end, prefix) = (named(&request.prefix.end()), named(request.prefix.expose()));
    let parameters = [
        Param::Text(&start),
        Param::Text(&place),
        Param::Text(&end),
        Param::Text(&prefix),
        Param::Number(i64::try_from(request.page_size).unwrap_or(i64::MAX)),
    ];
    let Answer { row, more, .. } =
        inner.pool.query(Lane::Contender, caller, statement, &parameters).await?;
    Ok(row.into_iter().chain(more).collect())
}

fn next(rows: &[Row], request: &ListRequest, lead: &str) -> Result<Option<Cursor>, LockError> {
    let Some(last) = rows.last().filter(|_| rows.len() >= request.page_size) else {
        return Ok(None);
    };
    let name: &str = column(last, 0)?;
    Ok(Some(Cursor::behind(name.strip_prefix(lead).unwrap_or(name))))
}

async fn counter(inner: Arc<Inner>, key: Key, caller: Caller) -> Result<Option<Fence>, LockError> {
    let fence_key = names::fence_name(&names::lock_name(&key)?)?;
    let parameters = [Param::Text(fence_key.expose())];
    let answer =
        inner.pool.query(Lane::Contender, &caller, &inner.statements.counter, &parameters).await;
    let answer = answer.map_err(|error| error.with_key(&key))?;
    let Some(row) = answer.row else { return Ok(None) };
    fence(column(&row, 0)?, fence_key.expose()).map(Some)
}

async fn raise(inner: Arc<Inner>, request: RaiseRequest) -> Result<Fence, LockError> {
    let RaiseRequest { key, at_least, cancellation, .. } = request;
    let caller = Caller::new(cancellation.as_ref());
    let fence_key = names::fence_name(&names::lock_name(&key)?)?;
    let parameters = [
        Param::Text(fence_key.expose()),
        Param::Text(key.expose()),
        Param::Number(at_least.as_i64()),
    ];
    let statement = &inner.statements.raise_counter;
    let answer = inner.pool.query(Lane::Contender, &caller, statement, &parameters).await;
    let answer = answer.map_err(|error| error.with_key(&key))?;
    // No row: the counter is negative.
    let raised = answer.row.map_or(Ok(-1), |row| column(&row, 0))?;
    fence(raised, fence_key.expose())
}

fn fence(counter: i64, fence_key: &str) -> Result<Fence, LockError> {
    if counter < 0 {
        let hash = hash_key(fence_key);
        return Err(LockError::internal(format!("corrupt fence counter {hash}: it is negative")));
    }
    // A counter at the end of the range is full, and not corrupt.
    Fence::try_from(counter).map_err(|_| Fence::exhausted())
}
