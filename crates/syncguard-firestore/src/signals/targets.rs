//! The documents that a stream listens to, and the server's answers about them.

use std::collections::HashMap;

use gcloud_sdk::google::firestore::v1::TargetChange;
use gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use syncguard_core::Timestamp;
use tokio::time::Instant;

use crate::document;

pub(super) type TargetId = i32;

/// The documents of one stream, by their names.
#[derive(Default)]
pub(super) struct Targets {
    by_name: HashMap<String, Target>,
    last: TargetId,
    /// When the server confirmed a document last, or was asked for one while it owed no answer.
    since: Option<Instant>,
}

struct Target {
    id: TargetId,
    /// Set until the server has confirmed the target.
    pending: Option<Pending>,
}

/// The server's answers about a target that it has not confirmed yet.
#[derive(Default)]
struct Pending {
    /// The lock in the document, if there is one.
    lock: Option<WatchedLock>,
    /// The document was deleted meanwhile. A state that arrives after that may be older: the emulator sends
    /// the first state of a document and later changes in any order.
    was_deleted: bool,
    /// Another watch has joined meanwhile. For this watch, the server's answer may be outdated.
    has_joined: bool,
}

/// A lock in a document, as the server reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WatchedLock {
    pub(super) expires_at: Timestamp,
    /// True if the document has no field for the holder.
    pub(super) is_polled: bool,
}

/// The result of adding a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The server must be asked to listen to this target.
    New(TargetId),
    /// The server has been asked, and has not confirmed yet.
    Pending,
    /// The server has confirmed this document before.
    Confirmed,
    TooMany,
}

/// An event for the watches of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The server has confirmed the document, and has reported this lock in it.
    Confirmed(String, Option<WatchedLock>),
    MayBeFree(String),
    /// The server no longer listens to the document.
    Refused(String),
}

impl Targets {
    /// The largest number of documents that one stream listens to.
    const LIMIT: usize = 1_000;

    pub(super) fn add(&mut self, name: &str) -> Added {
        if let Some(target) = self.by_name.get_mut(name) {
            let Some(pending) = &mut target.pending else { return Added::Confirmed };
            pending.has_joined = true;
            return Added::Pending;
        }
        if self.by_name.len() >= Self::LIMIT {
            return Added::TooMany;
        }
        if self.pending_since().is_none() {
            self.since = Some(Instant::now());
        }
        self.last += 1;
        let target = Target { id: self.last, pending: Some(Pending::default()) };
        self.by_name.insert(name.to_owned(), target);
        Added::New(self.last)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<TargetId> {
        self.by_name.remove(name).map(|target| target.id)
    }

    /// While targets wait for the server's confirmation: the time since when the server has confirmed none.
    pub(super) fn pending_since(&self) -> Option<Instant> {
        let mut targets = self.by_name.values();
        self.since.filter(|_| targets.any(|target| target.pending.is_some()))
    }

    /// Takes an answer of the server, and returns the events that follow from it.
    pub(super) fn on_answer(&mut self, answer: ResponseType) -> Vec<Event> {
        match answer {
            ResponseType::TargetChange(change) => self.on_target_change(&change),
            ResponseType::DocumentChange(change) => {
                let Some(document) = change.document else { return Vec::new() };
                if change.target_ids.is_empty() {
                    return self.on_deleted(&document.name).into_iter().collect();
                }
                let target = self.by_name.get_mut(&document.name);
                // After the confirmation a changed document is no event: the lock is not free.
                if let Some(pending) = target.and_then(|target| target.pending.as_mut()) {
                    // A document that cannot be read is not a lock to wait for.
                    pending.lock = document::lock(document).ok().map(|held| WatchedLock {
                        expires_at: held.record.expires_at,
                        is_polled: held.record.is_polled,
                    });
                }
                Vec::new()
            }
            ResponseType::DocumentDelete(deleted) => {
                self.on_deleted(&deleted.document).into_iter().collect()
            }
            ResponseType::DocumentRemove(removed) => {
                self.on_deleted(&removed.document).into_iter().collect()
            }
            // The server does not know which documents of the target are gone; a target has only one.
            ResponseType::Filter(filter) if filter.count == 0 => {
                self.on_maybe_deleted(&[filter.target_id])
            }
            ResponseType::Filter(_) => Vec::new(),
        }
    }

    fn on_target_change(&mut self, change: &TargetChange) -> Vec<Event> {
        let ids = &change.target_ids;
        match change.target_change_type() {
            TargetChangeType::Current => {
                self.since = Some(Instant::now());
                let matching = self.by_name.iter_mut().filter(|(_, target)| target.is_in(ids));
                let confirmed = matching.filter_map(|(name, target)| {
                    Some(Event::Confirmed(name.clone(), target.pending.take()?.lock()))
                });
                confirmed.collect()
            }
            TargetChangeType::Remove => {
                let refused = self.by_name.extract_if(|_, target| target.is_in(ids));
                refused.map(|(name, _)| Event::Refused(name)).collect()
            }
            // The server sends the first state again, which does not mention documents deleted since.
            TargetChangeType::Reset => self.on_maybe_deleted(ids),
            TargetChangeType::Add | TargetChangeType::NoChange => Vec::new(),
        }
    }

    /// The documents of these targets may have been deleted.
    fn on_maybe_deleted(&mut self, ids: &[TargetId]) -> Vec<Event> {
        let matching = self.by_name.iter().filter(|(_, target)| target.is_in(ids));
        let names: Vec<_> = matching.map(|(name, _)| name.clone()).collect();
        names.iter().filter_map(|name| self.on_deleted(name)).collect()
    }

    /// A document was deleted, or never existed.
    fn on_deleted(&mut self, name: &str) -> Option<Event> {
        let target = self.by_name.get_mut(name)?;
        if let Some(pending) = &mut target.pending {
            pending.was_deleted = true;
            return None;
        }
        Some(Event::MayBeFree(name.to_owned()))
    }
}

impl Target {
    /// Returns whether a change with these ids is about this target. No ids mean all targets.
    fn is_in(&self, ids: &[TargetId]) -> bool {
        ids.is_empty() || ids.contains(&self.id)
    }
}

impl Pending {
    fn lock(self) -> Option<WatchedLock> {
        self.lock.filter(|_| !self.was_deleted && !self.has_joined)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gcloud_sdk::google::firestore::v1::{
        Document, DocumentChange, DocumentDelete, ExistenceFilter,
    };
    use syncguard_core::authoring::conditional::Record;
    use syncguard_core::contract::Holder;
    use syncguard_core::{Fence, Key, LockId};
    use tokio::time::advance;

    use super::*;

    fn target_change(kind: TargetChangeType, ids: &[TargetId]) -> ResponseType {
        ResponseType::TargetChange(TargetChange {
            target_change_type: kind.into(),
            target_ids: ids.to_vec(),
            ..TargetChange::default()
        })
    }

    const CURRENT: TargetChangeType = TargetChangeType::Current;

    fn deleted(name: &str) -> ResponseType {
        let document = name.to_owned();
        ResponseType::DocumentDelete(DocumentDelete { document, ..DocumentDelete::default() })
    }

    fn locked(name: &str) -> ResponseType {
        let [acquired_at, expires_at] =
            [1, 7].map(|millis| Timestamp::from_millis(millis).unwrap());
        let record = Record {
            key: Key::new(name).unwrap(),
            lock_id: LockId::generate().unwrap(),
            acquired_at,
            expires_at,
            fence: Fence::new(1).unwrap(),
            holder: Some(Holder::unnamed()),
            is_polled: false,
        };
        let updated = gcloud_sdk::prost_types::Timestamp::default();
        let document = document::of_lock(name.to_owned(), &record);
        let document = Document { update_time: Some(updated), ..document };
        let (document, target_ids) = (Some(document), vec![1]);
        ResponseType::DocumentChange(DocumentChange {
            document,
            target_ids,
            ..DocumentChange::default()
        })
    }

    fn confirmed(name: &str, expires: Option<u64>) -> Vec<Event> {
        let lock = expires.map(|millis| WatchedLock {
            expires_at: Timestamp::from_millis(millis).unwrap(),
            is_polled: false,
        });
        vec![Event::Confirmed(name.to_owned(), lock)]
    }

    fn may_be_free(name: &str) -> Vec<Event> {
        vec![Event::MayBeFree(name.to_owned())]
    }

    #[test]
    fn a_document_is_listened_to_once_the_server_has_said_everything() {
        let mut targets = Targets::default();
        assert_eq!(targets.add("a"), Added::New(1));
        assert_eq!(targets.on_answer(locked("a")), []);
        assert_eq!(targets.on_answer(target_change(CURRENT, &[2])), [], "another one");
        assert_eq!(targets.on_answer(target_change(CURRENT, &[1])), confirmed("a", Some(7)));
        assert_eq!(targets.add("a"), Added::Confirmed);
        assert_eq!(targets.on_answer(locked("a")), [], "it is not free");
        assert_eq!(targets.on_answer(deleted("a")), may_be_free("a"));
        assert_eq!((targets.remove("a"), targets.remove("a")), (Some(1), None));
        assert_eq!(targets.on_answer(deleted("a")), []);
    }

    #[tokio::test(start_paused = true)]
    async fn each_confirmation_gives_the_server_the_whole_time_for_the_next() {
        let mut targets = Targets::default();
        assert_eq!(targets.pending_since(), None);
        let start = Instant::now();
        for name in ["a", "b", "c"] {
            targets.add(name);
            advance(Duration::from_secs(1)).await;
            assert_eq!(targets.pending_since(), Some(start));
        }
        targets.on_answer(target_change(CURRENT, &[1]));
        assert_eq!(targets.pending_since(), Some(Instant::now()));
        targets.on_answer(target_change(CURRENT, &[2]));
        targets.remove("c");
        assert_eq!(targets.pending_since(), None);
    }

    #[test]
    fn a_first_state_that_comes_after_its_end_is_no_lock() {
        let mut targets = Targets::default();
        targets.add("a");
        assert_eq!(targets.on_answer(deleted("a")), [], "no news at first");
        assert_eq!(targets.on_answer(locked("a")), []);
        assert_eq!(targets.on_answer(target_change(CURRENT, &[])), confirmed("a", None));
    }

    #[test]
    fn a_watch_that_joins_before_the_answer_is_told_of_no_lock() {
        let mut targets = Targets::default();
        targets.add("a");
        assert_eq!(targets.add("a"), Added::Pending);
        targets.on_answer(locked("a"));
        assert_eq!(targets.on_answer(target_change(CURRENT, &[1])), confirmed("a", None));
    }

    #[test]
    fn a_document_that_may_be_gone_is_news() {
        let mut targets = Targets::default();
        targets.add("a");
        targets.on_answer(locked("a"));
        let reset = |ids| target_change(TargetChangeType::Reset, ids);
        assert_eq!(targets.on_answer(reset(&[1])), []);
        assert_eq!(
            targets.on_answer(target_change(CURRENT, &[1])),
            confirmed("a", None),
            "to be looked at"
        );
        assert_eq!(targets.on_answer(reset(&[2])), []);
        assert_eq!(targets.on_answer(reset(&[1])), may_be_free("a"));
        assert_eq!(targets.on_answer(reset(&[])), may_be_free("a"));
        let filter = |count| {
            let filter = ExistenceFilter { target_id: 1, count, ..ExistenceFilter::default() };
            ResponseType::Filter(filter)
        };
        assert_eq!(targets.on_answer(filter(0)), may_be_free("a"));
        assert_eq!(targets.on_answer(filter(1)), []);
    }

    #[test]
    fn what_the_server_refuses_is_over() {
        let mut targets = Targets::default();
        targets.add("a");
        targets.add("b");
        let refused = |name: &str| [Event::Refused(name.to_owned())];
        assert_eq!(targets.on_answer(target_change(TargetChangeType::Remove, &[1])), refused("a"));
        assert_eq!(targets.on_answer(target_change(TargetChangeType::Remove, &[])), refused("b"));
    }

    #[test]
    fn there_is_a_limit_to_documents() {
        let mut targets = Targets::default();
        for number in 0..Targets::LIMIT {
            assert!(matches!(targets.add(&number.to_string()), Added::New(_)));
        }
        assert_eq!(targets.add("one more"), Added::TooMany);
        assert_eq!(targets.add("1"), Added::Pending);
    }
}
