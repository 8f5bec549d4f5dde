//! Fleets whose processes share keys and differ in their labels: some have a label for each lock, some store no holder, and
//! some are clients that know no labels. Observers look all the time, and no lookup shows a label of another lock than
//! the one that it describes.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail, ensure};
use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, HashId, Holder, LookupRequest, ReleaseRequest,
};
use syncguard::inventory::ListRequest;
use syncguard::{DynBackend, LockBackend as _, LockId, LockInfo};
use tokio::sync::watch;
use tokio::task::JoinSet;

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

    /// Lets the tables of an older version keep labels, while they are in use.
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
    New,
    /// They keep no labels, and this library works on them. They are migrated during the run; after that, one process
    /// after the other connects anew.
    Old,
    /// The same, but this library migrates them when it connects, so its processes start then.
    OldWithoutUs,
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
        tables,
        books: Mutex::default(),
        keys: Default::default(),
        seen: Seen::default(),
        entries: watch::channel(0).0,
        is_migrated: watch::channel(tables == Tables::New).0,
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
    if tables != Tables::New {
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
    fleet.check()
}

struct Fleet<S> {
    site: S,
    tables: Tables,
    books: Mutex<HashMap<HashId, Asked>>,
    keys: [Watched; KEYS.len()],
    seen: Seen,
    /// How many locks were taken.
    entries: watch::Sender<usize>,
    is_migrated: watch::Sender<bool>,
    is_over: AtomicBool,
}

/// A lock that a process asks for, written down before the request is sent.
struct Asked {
    key: &'static str,
    holder: Option<Holder>,
    /// False if the store may not have kept the holder.
    is_kept: bool,
    /// The fence that the process got.
    granted: Option<u64>,
    /// The fence that a lookup has shown.
    shown: Option<u64>,
}

/// A key, and its holders.
#[derive(Default)]
struct Watched {
    holders: AtomicUsize,
    highest: AtomicU64,
}

/// How many lookups showed a lock of each kind.
#[derive(Default)]
struct Seen {
    labelled: AtomicUsize,
    /// With a label that the store did not keep.
    hidden: AtomicUsize,
    unlabelled: AtomicUsize,
}

impl<S: Site> Fleet<S> {
    /// A process of this library.
    async fn ours(&self, number: usize, has_label: bool, rounds: usize) -> Result<()> {
        self.until_deployed().await?;
        let own = if has_label { format!("process {number}") } else { String::new() };
        let mut backend = self.site.connect(&own).await?;
        let mut is_new = self.keeps_labels();
        for round in 0..rounds {
            if !is_new && *self.is_migrated.borrow() {
                // The rolling upgrade has come to this process.
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
                self.ask(lock_id, index, holder.clone(), is_new);
                let request = AcquireRequest::new(KEYS[index], MINUTE)?.with_lock_id(lock_id);
                let request = request.with_holder(holder.unwrap_or_else(Holder::unnamed));
                if let AcquireResult::Acquired(lock) = backend.acquire(request).await? {
                    break (lock_id, lock.fence.get());
                }
                self.books().remove(&lock_id.hash_id());
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
                self.ask(lock_id, index, None, false);
                if let Some(fence) = client.acquire(KEYS[index], lock_id).await? {
                    break (lock_id, fence);
                }
                self.books().remove(&lock_id.hash_id());
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
        self.until_deployed().await?;
        // The process stays the same, so it may be one that started before the migration.
        let (backend, is_new) = (self.site.connect("observer").await?, self.keeps_labels());
        while !self.is_over.load(Ordering::SeqCst) {
            for key in KEYS {
                if let Some(info) = backend.lookup(LookupRequest::by_key(key)?).await? {
                    self.look(&info, is_new)?;
                }
            }
            let inventory = backend.inventory().context("an inventory")?;
            let page = inventory.list_locks(ListRequest::new().with_prefix("labels:")).await?;
            ensure!(page.corrupt.is_empty(), "corrupt records");
            page.entries.iter().try_for_each(|info| self.look(info, is_new))?;
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

    async fn until_deployed(&self) -> Result<()> {
        if self.tables == Tables::OldWithoutUs {
            self.is_migrated.subscribe().wait_for(|is_migrated| *is_migrated).await?;
        }
        Ok(())
    }

    /// Whether a process that connects now keeps labels in any case.
    fn keeps_labels(&self) -> bool {
        *self.is_migrated.borrow()
    }

    fn ask(&self, lock_id: LockId, index: usize, holder: Option<Holder>, is_kept: bool) {
        let asked = Asked { key: KEYS[index], holder, is_kept, granted: None, shown: None };
        self.books().insert(lock_id.hash_id(), asked);
    }

    fn enter(&self, index: usize, lock_id: LockId, fence: u64) -> Result<()> {
        let key = &self.keys[index];
        ensure!(key.holders.fetch_add(1, Ordering::SeqCst) == 0, "two holders");
        let before = key.highest.swap(fence, Ordering::SeqCst);
        ensure!(before < fence, "fence {fence} after {before}");
        if let Some(asked) = self.books().get_mut(&lock_id.hash_id()) {
            asked.granted = Some(fence);
        }
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
            self.look(&found, is_new)?;
        }
        Ok(())
    }

    /// Checks what a lookup shows. `is_new` says whether the process that looks can see all holders that are kept.
    fn look(&self, info: &LockInfo, is_new: bool) -> Result<()> {
        let mut books = self.books();
        let asked = books.get_mut(&info.lock_id_hash()).context("a lock that nobody asked for")?;
        let key = info.clone().expose().key;
        ensure!(key.expose() == asked.key, "the key of another lock");
        let fence = info.fence.get();
        let before = asked.shown.replace(fence).or(asked.granted).unwrap_or(fence);
        ensure!(before == fence, "a lock with the fences {before} and {fence}");
        let count = match sight(info.holder.as_ref(), asked.holder.as_ref())? {
            Sight::None => &self.seen.unlabelled,
            Sight::Right => &self.seen.labelled,
            Sight::Missing => {
                ensure!(!(asked.is_kept && is_new), "{:?} is not shown", asked.holder);
                &self.seen.hidden
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn books(&self) -> MutexGuard<'_, HashMap<HashId, Asked>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the run as a whole.
    fn check(&self) -> Result<String> {
        let books = self.books();
        for asked in books.values() {
            let wrong = asked.shown.filter(|shown| asked.granted != Some(*shown));
            ensure!(wrong.is_none(), "a lock of {:?} was seen with {wrong:?}", asked.granted);
        }
        let is_seen = |holder: bool| {
            let of_kind = books.values().filter(|asked| asked.holder.is_some() == holder);
            of_kind.filter(|asked| asked.shown.is_some()).count()
        };
        let Seen { labelled, hidden, unlabelled } = &self.seen;
        let [labelled, hidden, unlabelled] =
            [labelled, hidden, unlabelled].map(|count| count.load(Ordering::Relaxed));
        ensure!(labelled > 0 && unlabelled > 0, "{labelled} with a label, {unlabelled} without");
        ensure!(self.tables != Tables::Old || hidden > 0, "no lock was seen before the migration");
        Ok(format!(
            "{} locks, of which {} with and {} without a label were seen; {labelled} lookups showed a label, {hidden} \
             none of a lock whose label was not kept, {unlabelled} none of a lock without one",
            books.len(),
            is_seen(true),
            is_seen(false)
        ))
    }
}

/// The holder that a lookup shows, compared with that of the lock.
#[derive(Debug, PartialEq, Eq)]
enum Sight {
    Right,
    Missing,
    None,
}

fn sight(shown: Option<&Holder>, own: Option<&Holder>) -> Result<Sight> {
    match (shown, own) {
        (None, None) => Ok(Sight::None),
        (None, Some(_)) => Ok(Sight::Missing),
        (Some(shown), Some(own)) if shown == own => Ok(Sight::Right),
        (Some(shown), own) => bail!("a lock with the holder {own:?} shows {shown:?}"),
    }
}

async fn pause(seed: usize) {
    tokio::time::sleep(Duration::from_micros(200 * (seed as u64 % 5 + 1))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_another_lock_is_noticed() {
        let holder = |label: &str| Holder::new(label).unwrap().with_note("a note").unwrap();
        let (own, other) = (holder("lock 1"), holder("lock 2"));
        let without_note = Holder::new("lock 1").unwrap();
        assert_eq!(sight(Some(&own), Some(&own)).unwrap(), Sight::Right);
        assert_eq!(sight(None, Some(&own)).unwrap(), Sight::Missing);
        assert_eq!(sight(None, None).unwrap(), Sight::None);
        for (shown, own) in [(&other, Some(&own)), (&other, None), (&without_note, Some(&own))] {
            assert!(sight(Some(shown), own).is_err(), "{shown:?} for {own:?}");
        }
    }
}
