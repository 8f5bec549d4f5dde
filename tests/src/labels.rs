//! Fleets whose processes share keys and differ in their labels: some have a label for each lock, some store no holder, and
//! some are clients that know no labels. Observers look all the time, and no lookup shows a label of another lock than
//! the one that it describes.

mod books;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, ensure};
use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, Holder, LookupRequest, ReleaseRequest,
};
use syncguard::inventory::ListRequest;
use syncguard::{DynBackend, LockBackend as _, LockId};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::books::Books;

/// The store of a fleet.
pub trait Site: Send + Sync + 'static {
    /// A client that knows no labels.
    type Other: Other;

    /// Connects another process of this library. Its own label is this one, or none if the text is empty.
    fn connect(&self, label: &str) -> impl Future<Output = Result<DynBackend>> + Send;

    /// Connects a client that knows no labels.
    fn other(&self) -> impl Future<Output = Result<Self::Other>> + Send;

    /// Makes the lock of this key expire, if the store lets a test do so: the record stays where it is.
    fn expire(&self, key: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Lets the tables of the TypeScript library keep labels, while they are in use.
    fn migrate(&self) -> impl Future<Output = Result<()>> + Send;
}

/// A client that knows no labels, such as the TypeScript library.
pub trait Other: Send + 'static {
    /// The fence, if the key was free.
    fn acquire(
        &mut self,
        key: &str,
        lock_id: LockId,
    ) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// Returns true if the lock was held.
    fn release(&mut self, lock_id: LockId) -> impl Future<Output = Result<bool>> + Send;
}

/// The tables at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// They keep labels.
    Ours,
    /// They keep no labels, and this library works on them. They are migrated during the run; after that, one process
    /// after the other connects anew.
    OfTypeScript,
}

/// The processes of each kind, and the locks that each of them takes.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "their names say it")]
pub struct Size {
    pub labelled: usize,
    pub unlabelled: usize,
    pub others: usize,
    pub rounds: usize,
}

const KEYS: [&str; 2] = ["labels:1", "labels:2"];
const MINUTE: Duration = Duration::from_secs(60);

/// Runs a fleet to its end, and says what was seen.
///
/// # Errors
///
/// If a lookup shows a wrong label, if there are two holders or a fence comes twice, if the store fails, and if a kind of
/// lock was never seen.
pub async fn run<S: Site>(site: S, tables: Tables, size: Size) -> Result<String> {
    let fleet = Arc::new(Fleet {
        site,
        books: Books::default(),
        keys: Default::default(),
        entries: watch::channel(0).0,
        is_migrated: watch::channel(tables == Tables::Ours).0,
        is_over: AtomicBool::new(false),
    });
    let mut observers = JoinSet::new();
    for _ in 0..2 {
        let fleet = Arc::clone(&fleet);
        observers.spawn(async move { fleet.observe().await });
    }
    let mut processes = JoinSet::new();
    for number in 0..size.labelled + size.unlabelled {
        let (fleet, has_label) = (Arc::clone(&fleet), number < size.labelled);
        processes.spawn(async move { fleet.ours(number, has_label, size.rounds).await });
    }
    for number in 0..size.others {
        let fleet = Arc::clone(&fleet);
        processes.spawn(async move { fleet.theirs(number, size.rounds).await });
    }
    if tables != Tables::Ours {
        let fleet = Arc::clone(&fleet);
        processes.spawn(async move { fleet.migrate(size.rounds / 2).await });
    }
    let mut result = Ok(());
    while let Some(process) = processes.join_next().await {
        result = result.and(process.map_err(Error::from).and_then(|ended| ended));
        if result.is_err() {
            processes.abort_all();
        }
    }
    fleet.is_over.store(true, Ordering::SeqCst);
    while let Some(observer) = observers.join_next().await {
        result = result.and(observer.map_err(Error::from).and_then(|ended| ended));
    }
    result?;
    fleet.books.check(tables == Tables::OfTypeScript)
}

struct Fleet<S> {
    site: S,
    books: Books,
    keys: [Watched; KEYS.len()],
    /// How many locks were taken.
    entries: watch::Sender<usize>,
    is_migrated: watch::Sender<bool>,
    is_over: AtomicBool,
}

/// A key, and its holders.
#[derive(Default)]
struct Watched {
    holders: AtomicUsize,
    highest: AtomicU64,
}

impl<S: Site> Fleet<S> {
    /// A process of this library.
    async fn ours(&self, number: usize, has_label: bool, rounds: usize) -> Result<()> {
        let own = if has_label { format!("process {number}") } else { String::new() };
        let mut backend = self.site.connect(&own).await?;
        let mut is_new = self.keeps_labels();
        for round in 0..rounds {
            if !is_new && *self.is_migrated.borrow() {
                (backend, is_new) = (self.site.connect(&own).await?, true);
            }
            let index = (number + round) % KEYS.len();
            let holder = |attempt: usize| -> Result<Option<Holder>> {
                let label = || format!("process {number}, lock {round}, attempt {attempt}");
                let holder = |label: String| Holder::new(&label)?.with_note(format!("{label}!"));
                Ok(has_label.then(label).map(holder).transpose()?)
            };
            let mut attempt = 0;
            let (lock_id, fence) = loop {
                attempt += 1;
                let (holder, lock_id) = (holder(attempt)?, LockId::generate()?);
                self.books.ask(lock_id, KEYS[index], holder.clone(), is_new);
                let request = AcquireRequest::new(KEYS[index], MINUTE)?.with_lock_id(lock_id);
                let request = request.with_holder(holder.unwrap_or_else(Holder::unnamed));
                if let AcquireResult::Acquired(lock) = backend.acquire(request).await? {
                    break (lock_id, lock.fence.get());
                }
                self.books.forget(lock_id);
                pause(number + attempt).await;
            };
            self.enter(index, lock_id, fence)?;
            self.look_at_own(&backend, index, lock_id, is_new).await?;
            if round % 3 == 0 {
                let extend = ExtendRequest::new(lock_id, MINUTE)?;
                ensure!(
                    backend.extend(extend).await?.is_extended(),
                    "a held lock was not extended"
                );
                self.look_at_own(&backend, index, lock_id, is_new).await?;
            }
            self.keys[index].holders.fetch_sub(1, Ordering::SeqCst);
            let is_expired = round % 2 == 0 && self.site.expire(KEYS[index]).await?;
            if !is_expired {
                let released = backend.release(ReleaseRequest::new(lock_id)).await?;
                ensure!(released.is_released(), "a held lock was not released");
            }
        }
        Ok(())
    }

    /// A client that knows no labels.
    async fn theirs(&self, number: usize, rounds: usize) -> Result<()> {
        let mut client = self.site.other().await?;
        for round in 0..rounds {
            let index = (number + round) % KEYS.len();
            let (lock_id, fence) = loop {
                let lock_id = LockId::generate()?;
                self.books.ask(lock_id, KEYS[index], None, false);
                if let Some(fence) = client.acquire(KEYS[index], lock_id).await? {
                    break (lock_id, fence);
                }
                self.books.forget(lock_id);
                pause(number).await;
            };
            self.enter(index, lock_id, fence)?;
            pause(round).await;
            self.keys[index].holders.fetch_sub(1, Ordering::SeqCst);
            let is_expired = round % 2 == 0 && self.site.expire(KEYS[index]).await?;
            ensure!(is_expired || client.release(lock_id).await?, "their lock was not released");
        }
        Ok(())
    }

    /// A process that takes no locks.
    async fn observe(&self) -> Result<()> {
        // The process stays the same, so it may be one that started before the migration.
        let (backend, is_new) = (self.site.connect("observer").await?, self.keeps_labels());
        while !self.is_over.load(Ordering::SeqCst) {
            for key in KEYS {
                if let Some(info) = backend.lookup(LookupRequest::by_key(key)?).await? {
                    self.books.look(&info, is_new)?;
                }
            }
            let inventory = backend.inventory().context("an inventory")?;
            let page = inventory.list_locks(ListRequest::new().with_prefix("labels:")).await?;
            ensure!(page.corrupt.is_empty(), "corrupt records");
            page.entries.iter().try_for_each(|info| self.books.look(info, is_new))?;
            pause(1).await;
        }
        Ok(())
    }

    async fn migrate(&self, after: usize) -> Result<()> {
        self.entries.subscribe().wait_for(|entries| *entries >= after).await?;
        self.site.migrate().await?;
        self.is_migrated.send_replace(true);
        Ok(())
    }

    /// Whether a process that connects now keeps labels in any case.
    fn keeps_labels(&self) -> bool {
        *self.is_migrated.borrow()
    }

    fn enter(&self, index: usize, lock_id: LockId, fence: u64) -> Result<()> {
        let key = &self.keys[index];
        ensure!(key.holders.fetch_add(1, Ordering::SeqCst) == 0, "two holders");
        let before = key.highest.swap(fence, Ordering::SeqCst);
        ensure!(before < fence, "fence {fence} after {before}");
        self.books.grant(lock_id, fence);
        self.entries.send_modify(|entries| *entries += 1);
        Ok(())
    }

    /// A holder looks at its own lock.
    async fn look_at_own(
        &self,
        backend: &DynBackend,
        index: usize,
        lock_id: LockId,
        is_new: bool,
    ) -> Result<()> {
        for request in [LookupRequest::by_key(KEYS[index])?, LookupRequest::by_lock_id(lock_id)] {
            let found = backend.lookup(request).await?.context("a held lock")?;
            ensure!(found.lock_id_hash() == lock_id.hash_id(), "another lock");
            self.books.look(&found, is_new)?;
        }
        Ok(())
    }
}

async fn pause(seed: usize) {
    tokio::time::sleep(Duration::from_micros(200 * (seed as u64 % 5 + 1))).await;
}
