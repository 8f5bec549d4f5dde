//! The inventory in the form that the cases use.

use syncguard_core::contract::FenceToken;
use syncguard_core::inventory::{Inventory, ListRequest};
use syncguard_core::{Fence, Key, LockBackend, LockInfo};

use crate::client::Client;
use crate::outcome::{Stop, Unexpected};

/// More pages than any listing of a case can have.
const ENDLESS: usize = 1000;

/// The inventory of a backend.
#[derive(Clone)]
pub(crate) struct OverAll<F: FenceToken>(Inventory<F>);

impl<F: FenceToken> OverAll<F> {
    /// The case does not apply if the backend has none.
    pub(crate) fn of(client: &Client<F>) -> Result<Self, Stop> {
        let inventory = client.backend().inventory();
        inventory.map(Self).ok_or(Stop::NotApplicable("the backend cannot list its locks"))
    }

    /// Like [`of`](Self::of), but the case does not apply either if the backend does not fence.
    pub(crate) fn with_counters(client: &Client<F>) -> Result<Self, Stop> {
        if F::SUPPORTED {
            Self::of(client)
        } else {
            Err(Stop::NotApplicable("the backend does not fence"))
        }
    }

    /// The inventory itself, for single pages.
    pub(crate) fn raw(&self) -> &Inventory<F> {
        &self.0
    }

    /// A listing of locks, page by page.
    pub(crate) fn pages(&self, request: ListRequest) -> Pages<'_, F> {
        Pages { inventory: &self.0, next: Some(request), left: ENDLESS }
    }

    pub(crate) async fn locks(&self, request: ListRequest) -> Result<Vec<LockInfo<F>>, Unexpected> {
        let (mut pages, mut locks) = (self.pages(request), Vec::new());
        while let Some(page) = pages.next().await? {
            locks.extend(page);
        }
        Ok(locks)
    }

    /// The texts of the keys, in the order of the listing.
    pub(crate) async fn keys(&self, prefix: &str) -> Result<Vec<String>, Unexpected> {
        Ok(texts(self.locks(ListRequest::new().with_prefix(prefix)).await?))
    }

    /// All pages of counters.
    pub(crate) async fn counters(
        &self,
        request: ListRequest,
    ) -> Result<Vec<(String, Fence)>, Unexpected> {
        let (mut next, mut counters) = (Some(request), Vec::new());
        for _ in 0..ENDLESS {
            let Some(request) = next else { return Ok(counters) };
            let most = request.page_size();
            let page = self.0.list_counters(request).await;
            let page = page.map_err(|error| Unexpected::error("list_counters", &error))?;
            fits(page.entries.len(), most)?;
            let text = |key: &Key| key.expose().to_owned();
            counters.extend(page.entries.iter().map(|counter| (text(&counter.key), counter.last)));
            next = page.next;
        }
        Err(Unexpected::new("a listing of counters has no end"))
    }

    pub(crate) async fn counter(&self, key: &Key) -> Result<Option<Fence>, Unexpected> {
        let counter = self.0.fence_counter(key).await;
        counter.map_err(|error| Unexpected::error("fence_counter", &error))
    }

    pub(crate) async fn raise(&self, key: &Key, at_least: Fence) -> Result<Fence, Unexpected> {
        let raised = self.0.raise_counter(key, at_least).await;
        raised.map_err(|error| Unexpected::error("raise_counter", &error))
    }
}

/// The pages of a listing of locks.
pub(crate) struct Pages<'a, F: FenceToken> {
    inventory: &'a Inventory<F>,
    /// `None` after the last page.
    next: Option<ListRequest>,
    left: usize,
}

impl<F: FenceToken> Pages<'_, F> {
    /// `None` after the last lock.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<LockInfo<F>>>, Unexpected> {
        let Some(request) = self.next.take() else { return Ok(None) };
        let most = request.page_size();
        let page = self.inventory.list_locks(request).await;
        let page = page.map_err(|error| Unexpected::error("list_locks", &error))?;
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| Unexpected::new("a listing of locks has no end"))?;
        fits(page.entries.len(), most)?;
        self.next = page.next;
        Ok(Some(page.entries))
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
