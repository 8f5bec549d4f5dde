//! The inventory in the form that the cases use.

use syncguard_core::inventory::{Inventory, ListRequest};
use syncguard_core::{Fence, Key, LockBackend, LockInfo};

use crate::client::Client;
use crate::context::Context;
use crate::outcome::{Checked, Stop, Unexpected, answer, ensure};

/// More pages than any listing of a case can have.
const ENDLESS: usize = 1000;

/// The inventory of a backend.
#[derive(Clone)]
pub(crate) struct OverAll(Inventory);

impl OverAll {
    /// A client, and the inventory of another connection. The case does not apply if the backend has none.
    pub(crate) async fn of(context: &Context<'_>) -> Result<(Client, Self), Stop> {
        let (client, other) = context.pair().await;
        Ok((client, Self::of_client(&other)?))
    }

    /// Like [`of`](Self::of), but the case does not apply either if the backend does not fence.
    pub(crate) async fn with_counters(context: &Context<'_>) -> Result<(Client, Self), Stop> {
        if context.fences() {
            Self::of(context).await
        } else {
            Err(Stop::NotApplicable("the backend does not fence"))
        }
    }

    pub(crate) fn of_client(client: &Client) -> Result<Self, Stop> {
        let inventory = client.backend().inventory();
        inventory.map(Self).ok_or(Stop::NotApplicable("the backend cannot list its locks"))
    }

    /// The inventory itself, for single pages.
    pub(crate) fn raw(&self) -> &Inventory {
        &self.0
    }

    /// A listing of locks, page by page.
    pub(crate) fn pages(&self, request: ListRequest) -> Pages<'_> {
        Pages { inventory: &self.0, next: Some(request), left: ENDLESS }
    }

    pub(crate) async fn locks(&self, request: ListRequest) -> Checked<Vec<LockInfo>> {
        let (mut pages, mut locks) = (self.pages(request), Vec::new());
        while let Some(page) = pages.next().await? {
            locks.extend(page);
        }
        Ok(locks)
    }

    /// The texts of the keys, in the order of the listing.
    pub(crate) async fn keys(&self, prefix: &str) -> Checked<Vec<String>> {
        Ok(texts(self.locks(ListRequest::new().with_prefix(prefix)).await?))
    }

    /// All pages of counters.
    pub(crate) async fn counters(&self, request: ListRequest) -> Checked<Vec<(String, Fence)>> {
        let (mut next, mut counters) = (Some(request), Vec::new());
        for _ in 0..ENDLESS {
            let Some(request) = next else { return Ok(counters) };
            let most = request.page_size();
            let page = answer("list_counters", self.0.list_counters(request).await)?;
            fits(page.entries.len(), most)?;
            let text = |key: &Key| key.expose().to_owned();
            counters.extend(page.entries.iter().map(|counter| (text(&counter.key), counter.last)));
            next = page.next;
        }
        Err(Unexpected::new("a listing of counters has no end"))
    }

    pub(crate) async fn counter(&self, key: &Key) -> Checked<Option<Fence>> {
        answer("fence_counter", self.0.fence_counter(key).await)
    }

    pub(crate) async fn raise(&self, key: &Key, at_least: Fence) -> Checked<Fence> {
        answer("raise_counter", self.0.raise_counter(key, at_least).await)
    }
}

/// The pages of a listing of locks.
pub(crate) struct Pages<'a> {
    inventory: &'a Inventory,
    /// `None` after the last page.
    next: Option<ListRequest>,
    left: usize,
}

impl Pages<'_> {
    /// `None` after the last lock.
    pub(crate) async fn next(&mut self) -> Checked<Option<Vec<LockInfo>>> {
        let Some(request) = self.next.take() else { return Ok(None) };
        let most = request.page_size();
        let page = answer("list_locks", self.inventory.list_locks(request).await)?;
        ensure!(self.left > 0, "a listing of locks has no end");
        self.left -= 1;
        fits(page.entries.len(), most)?;
        self.next = page.next;
        Ok(Some(page.entries))
    }
}

fn fits(length: usize, most: usize) -> Checked<()> {
    ensure!(length <= most, "a page of at most {most} entries has {length}");
    Ok(())
}

pub(crate) fn texts(locks: Vec<LockInfo>) -> Vec<String> {
    locks.into_iter().map(|info| info.key.expose().to_owned()).collect()
}
