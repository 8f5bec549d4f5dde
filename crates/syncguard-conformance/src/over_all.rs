//! Looking over all locks, as the cases say it.

use syncguard_core::contract::FenceToken;
use syncguard_core::inventory::{
    CounterPages, CounterRequest, ListRequest, LockInventory, LockPages, RaiseRequest,
};
use syncguard_core::{DynBackend, Fence, Key, LockBackend, LockInfo};

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
    pub(crate) fn pages(&self, request: ListRequest) -> Pages<'_, F> {
        let most = request.page_size;
        Pages { listing: LockPages::new(&self.0, request), most, left: ENDLESS }
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
        request: ListRequest,
    ) -> Result<Vec<(String, Fence)>, Unexpected> {
        let (most, mut counters) = (request.page_size, Vec::new());
        let mut pages = CounterPages::new(&self.0, request);
        for _ in 0..ENDLESS {
            let page = pages.next().await;
            let page = page.map_err(|error| Unexpected::error("list_counters", &error))?;
            let Some(page) = page else { return Ok(counters) };
            fits(page.counters.len(), most)?;
            let text = |key: &Key| key.expose().to_owned();
            counters.extend(page.counters.iter().map(|counter| (text(&counter.key), counter.last)));
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
pub(crate) struct Pages<'a, F: FenceToken> {
    listing: LockPages<'a, DynBackend<F>>,
    /// How many entries a page may have.
    most: usize,
    left: usize,
}

impl<F: FenceToken> Pages<'_, F> {
    /// `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<LockInfo<F>>>, Unexpected> {
        let page = self.listing.next().await;
        let page = page.map_err(|error| Unexpected::error("list_locks", &error))?;
        let Some(page) = page else { return Ok(None) };
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| Unexpected::new("a listing of locks has no end"))?;
        fits(page.locks.len(), self.most)?;
        Ok(Some(page.locks))
    }
}

fn fits(length: usize, most: usize) -> Result<(), Unexpected> {
    if length <= most {
        return Ok(());
    }
    Err(Unexpected::new(format!("a page of at most {most} entries has {length}")))
}

pub(crate) fn texts<F: FenceToken>(locks: Vec<LockInfo<F>>) -> Vec<String> {
    locks.into_iter().map(|info| info.expose().key.expose().to_owned()).collect()
}
