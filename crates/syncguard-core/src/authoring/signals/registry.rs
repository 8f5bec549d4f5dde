//! The watches of one session, by the names of their records.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::terms::{Changes, LockSeen};
use crate::contract::key_watch::KeySignal;

/// The number of a watch.
pub(super) type WatchId = u64;

pub(super) struct Registry {
    records: BTreeMap<String, Record>,
    /// Records with watches that the store was not asked for yet. Some of these watches may be gone.
    unasked: Vec<String>,
    /// Records that the store was asked for, and that nobody watches any more.
    unwatched: Vec<String>,
    last: WatchId,
    /// While there is no watch: since when.
    idle_since: Instant,
}

#[derive(Default)]
struct Record {
    watches: Vec<Watch>,
    /// True if the store was ever asked for this record.
    was_asked: bool,
}

/// A watch of a record. Dropping it ends the watch.
pub(super) struct Watch {
    id: WatchId,
    signal: KeySignal,
    is_asked_for: bool,
    /// The receiver waits until the store has confirmed the watch.
    waiting: Option<oneshot::Sender<LockSeen>>,
}

impl Registry {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            records: BTreeMap::new(),
            unasked: Vec::new(),
            unwatched: Vec::new(),
            last: 0,
            idle_since: now,
        }
    }

    /// Adds a watch. The receiver gets the confirmation and the state of the lock; it is closed if there will be no
    /// confirmation.
    pub(super) fn join(
        &mut self,
        name: &str,
        signal: KeySignal,
    ) -> (WatchId, oneshot::Receiver<LockSeen>) {
        self.last += 1;
        let (sender, confirmed) = oneshot::channel();
        let (id, waiting) = (self.last, Some(sender));
        let watch = Watch { id, signal, is_asked_for: false, waiting };
        self.records.entry(name.to_owned()).or_default().watches.push(watch);
        self.unasked.push(name.to_owned());
        (self.last, confirmed)
    }

    /// Ends a watch.
    pub(super) fn leave(&mut self, name: &str, id: WatchId, now: Instant) {
        let Some(record) = self.records.get_mut(name) else { return };
        record.watches.retain(|watch| watch.id != id);
        if record.watches.is_empty() && record.was_asked {
            self.unwatched.push(name.to_owned());
        }
        self.forget_if_unwatched(name, now);
    }

    /// Takes the changes that the session must ask the store for next.
    pub(super) fn take_changes(&mut self) -> Changes {
        let mut subscribe = std::mem::take(&mut self.unasked);
        subscribe.retain(|name| self.records.get_mut(name).is_some_and(Record::mark_as_asked_for));
        Changes { subscribe, unsubscribe: std::mem::take(&mut self.unwatched) }
    }

    /// Confirms the watches that the store was asked for.
    pub(super) fn confirm(&mut self, name: &str, lock: LockSeen) {
        let Some(record) = self.records.get_mut(name) else { return };
        for watch in record.watches.iter_mut().filter(|watch| watch.is_asked_for) {
            // A waiter that has given up needs no answer.
            let _ = watch.waiting.take().map(|waiting| waiting.send(lock));
        }
    }

    /// Takes the watches that the store was asked for and will not confirm.
    pub(super) fn refuse(&mut self, name: &str, now: Instant) -> Vec<Watch> {
        self.take(name, |watch| watch.is_asked_for && watch.waiting.is_some(), now)
    }

    /// Takes the watches that were confirmed.
    pub(super) fn end(&mut self, name: &str, now: Instant) -> Vec<Watch> {
        self.take(name, |watch| watch.waiting.is_none(), now)
    }

    /// Signals the watches that were confirmed.
    pub(super) fn signal(&self, name: &str) {
        let watches = self.records.get(name).into_iter().flat_map(|record| &record.watches);
        let confirmed = watches.filter(|watch| watch.waiting.is_none());
        confirmed.for_each(|watch| watch.signal.signal());
    }

    /// The time since which there is no watch; `None` if there is a watch.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.records.is_empty().then_some(self.idle_since)
    }

    fn take(&mut self, name: &str, are_these: fn(&Watch) -> bool, now: Instant) -> Vec<Watch> {
        let Some(record) = self.records.get_mut(name) else { return Vec::new() };
        let taken = record.watches.extract_if(.., |watch| are_these(watch)).collect();
        self.forget_if_unwatched(name, now);
        taken
    }

    fn forget_if_unwatched(&mut self, name: &str, now: Instant) {
        if self.records.get(name).is_some_and(|record| record.watches.is_empty()) {
            self.records.remove(name);
            self.idle_since = now;
        }
    }
}

impl Record {
    /// Marks the new watches as asked for. Returns whether there were any.
    fn mark_as_asked_for(&mut self) -> bool {
        let mut any = false;
        for watch in &mut self.watches {
            any |= !std::mem::replace(&mut watch.is_asked_for, true);
        }
        self.was_asked |= any;
        any
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::contract::key_watch::KeyWatch;

    type Joined = (WatchId, oneshot::Receiver<LockSeen>, KeyWatch);

    fn join(registry: &mut Registry, name: &str) -> Joined {
        let (signal, watch) = KeyWatch::new();
        let (id, confirmed) = registry.join(name, signal);
        (id, confirmed, watch)
    }

    fn confirmed(registry: &mut Registry, name: &str) -> Joined {
        let joined = join(registry, name);
        registry.take_changes();
        registry.confirm(name, LockSeen::MayBeFree);
        joined
    }

    fn changes(registry: &mut Registry) -> (Vec<String>, Vec<String>) {
        let changes = registry.take_changes();
        (changes.subscribe, changes.unsubscribe)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn each_watch_is_asked_for_and_the_last_one_unsubscribes() {
        let now = Instant::now();
        let mut registry = Registry::new(now);
        let (first, mut answer, mut watch) = join(&mut registry, "k");
        registry.confirm("k", LockSeen::Held);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty), "nobody has asked");
        assert_eq!(changes(&mut registry), (names(&["k"]), names(&[])));
        assert!(registry.take_changes().is_empty(), "asked already");
        let (second, mut later, mut other) = join(&mut registry, "k");
        registry.confirm("k", LockSeen::Held);
        assert_eq!(answer.try_recv(), Ok(LockSeen::Held));
        assert_eq!(later.try_recv(), Err(TryRecvError::Empty), "the store was asked before");
        registry.signal("k");
        watch.changed().await;
        assert_eq!(changes(&mut registry), (names(&["k"]), names(&[])));
        registry.confirm("k", LockSeen::MayBeFree);
        assert_eq!(later.try_recv(), Ok(LockSeen::MayBeFree));
        registry.signal("other");
        registry.signal("k");
        watch.changed().await;
        other.changed().await;

        registry.leave("k", first, now);
        assert!(watch.is_over() && !other.is_over() && registry.take_changes().is_empty());
        let later = now + Duration::from_secs(1);
        assert_eq!(registry.idle_since(), None);
        registry.leave("k", second, later);
        registry.leave("k", second, later + Duration::from_secs(1));
        assert_eq!(changes(&mut registry), (names(&[]), names(&["k"])));
        assert_eq!(registry.idle_since(), Some(later));
    }

    #[test]
    fn a_watch_that_leaves_before_the_store_is_asked_is_no_change() {
        let now = Instant::now();
        let mut registry = Registry::new(now);
        let (id, ..) = join(&mut registry, "k");
        registry.leave("k", id, now);
        assert!(registry.take_changes().is_empty() && registry.records.is_empty());
    }

    #[test]
    fn a_record_that_comes_back_while_the_store_is_asked_is_asked_for_again() {
        let now = Instant::now();
        let mut registry = Registry::new(now);
        let (id, ..) = join(&mut registry, "k");
        registry.take_changes();
        registry.leave("k", id, now);
        let (_, mut answer, watch) = join(&mut registry, "k");
        registry.confirm("k", LockSeen::Held);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty), "that was for the first");
        assert_eq!(changes(&mut registry), (names(&["k"]), names(&["k"])));
        registry.confirm("k", LockSeen::Held);
        assert!(!watch.is_over() && answer.try_recv() == Ok(LockSeen::Held));
    }

    #[test]
    fn an_end_is_for_confirmed_watches_and_a_refusal_for_the_others() {
        let now = Instant::now();
        let mut registry = Registry::new(now);
        let (_, _, old) = confirmed(&mut registry, "k");
        let (_, mut answer, new) = join(&mut registry, "k");
        registry.take_changes();
        drop(registry.end("k", now));
        assert!(old.is_over() && !new.is_over());
        drop(registry.refuse("k", now));
        assert_eq!(answer.try_recv(), Err(TryRecvError::Closed));
        assert!(new.is_over() && registry.records.is_empty());
        let (_, _, old) = confirmed(&mut registry, "k");
        drop(registry.refuse("k", now));
        assert!(!old.is_over());
        assert!(registry.take_changes().is_empty());
    }
}
