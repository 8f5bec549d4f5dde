//! Looking over all locks, as the cases say it.

use syncguard_core::{
    CounterRequest, DynBackend, Fence, FenceToken, Key, ListRequest, LockBackend, LockInfo,
    LockInventory, RaiseRequest,
};

use crate::client::Client;
use crate::outcome::{Stop, Unexpected};

/// More pages than any listing of a case can have.
const ENDLESS: usize = 1000;

/// The inventory of a backend.
#[derive(Clone)]
pub(crate) struct OverAll<F: FenceToken>(DynBackend<F>);

impl<F: FenceToken> OverAll<F> {
    /// Ends the case where the backend has none.
    pub(crate) fn of<B: LockBackend<Fence = F>>(client: &Client<B>) -> Result<Self, Stop> {
        if client.backend().inventory().is_none() {
            return Err(Stop::NotApplicable("the backend cannot list its locks"));
        }
        Ok(Self(DynBackend::new(client.backend().clone())))
    }

    /// [`of`](Self::of), and ends the case where the backend does not fence.
    pub(crate) fn with_counters<B: LockBackend<Fence = F>>(
        client: &Client<B>,
    ) -> Result<Self, Stop> {
        if F::SUPPORTED {
            Self::of(client)
        } else {
            Err(Stop::NotApplicable("the backend does not fence"))
        }
    }

    /// For operations that are expected to fail.
    pub(crate) fn raw(&self) -> &DynBackend<F> {
        &self.0
    }

    /// A listing of locks, page by page.
    pub(crate) fn pages(&self, request: ListRequest) -> Pages<F> {
        Pages { over_all: self.0.clone(), request: Some(request), left: ENDLESS }
    }

    pub(crate) async fn locks(&self, request: ListRequest) -> Result<Vec<LockInfo<F>>, Unexpected> {
        let (mut pages, mut locks) = (self.pages(request), Vec::new());
        while let Some(page) = pages.next().await? {
            locks.extend(page);
        }
        Ok(locks)
    }

    /// The texts of the keys, as they were listed.
    pub(crate) async fn keys(&self, prefix: &str) -> Result<Vec<String>, Unexpected> {
        Ok(texts(self.locks(ListRequest::new().with_prefix(prefix)?).await?))
    }

    /// All pages of counters.
    pub(crate) async fn counters(
        &self,
        mut request: ListRequest,
    ) -> Result<Vec<(String, Fence)>, Unexpected> {
        let mut counters = Vec::new();
        for _ in 0..ENDLESS {
            let page = self.0.list_counters(request.clone()).await;
            let page = page.map_err(|error| Unexpected::error("list_counters", &error))?;
            fits(page.counters.len(), &request)?;
            let text = |key: &Key| key.expose().to_owned();
            counters.extend(page.counters.iter().map(|counter| (text(&counter.key), counter.last)));
            let Some(next) = page.next else { return Ok(counters) };
            request = request.with_cursor(next);
        }
        Err(Unexpected::new("a listing of counters has no end"))
    }

    pub(crate) async fn counter(&self, key: &Key) -> Result<Option<Fence>, Unexpected> {
        let counter = self.0.fence_counter(CounterRequest::new(key)?).await;
        counter.map_err(|error| Unexpected::error("fence_counter", &error))
    }

    pub(crate) async fn raise(&self, key: &Key, at_least: Fence) -> Result<Fence, Unexpected> {
        let raised = self.0.raise_counter(RaiseRequest::new(key, at_least)?).await;
        raised.map_err(|error| Unexpected::error("raise_counter", &error))
    }
}

/// The pages of a listing of locks.
pub(crate) struct Pages<F: FenceToken> {
    over_all: DynBackend<F>,
    request: Option<ListRequest>,
    left: usize,
}

impl<F: FenceToken> Pages<F> {
    /// `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<LockInfo<F>>>, Unexpected> {
        let Some(request) = self.request.take() else { return Ok(None) };
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| Unexpected::new("a listing of locks has no end"))?;
        let page = self.over_all.list_locks(request.clone()).await;
        let page = page.map_err(|error| Unexpected::error("list_locks", &error))?;
        fits(page.locks.len(), &request)?;
        self.request = page.next.map(|next| request.with_cursor(next));
        Ok(Some(page.locks))
    }
}

fn fits(length: usize, request: &ListRequest) -> Result<(), Unexpected> {
    if length <= request.page_size {
        return Ok(());
    }
    let size = request.page_size;
    Err(Unexpected::new(format!("a page of at most {size} entries has {length}")))
}

pub(crate) fn texts<F: FenceToken>(locks: Vec<LockInfo<F>>) -> Vec<String> {
    locks.into_iter().map(|info| info.expose().key.expose().to_owned()).collect()
}
