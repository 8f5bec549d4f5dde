//! Which documents are listened to, and what the server says of them.

use std::collections::HashMap;

use gcloud_sdk::google::firestore::v1::TargetChange;
use gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use syncguard_core::Timestamp;

use crate::document::Record;

pub(super) type TargetId = i32;

/// The documents of one stream, by their names.
#[derive(Default)]
pub(super) struct Targets {
    targets: HashMap<String, Target>,
    last: TargetId,
}

struct Target {
    id: TargetId,
    /// Until the server has said everything until the target was added.
    asked: Option<Asked>,
}

/// The server's words so far.
#[derive(Default)]
struct Asked {
    /// The lock in the document; `None` without one.
    lock: Option<Told>,
    /// The document was gone meanwhile. What comes after that may be older: the emulator sends the first state of a
    /// document and what happens meanwhile in any order.
    was_gone: bool,
    /// Another watch has come meanwhile. For that one, what the server says may be over.
    has_joined: bool,
}

/// The server's words on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) expires_at: Timestamp,
    /// Whether a process that hears signals has written it.
    pub(super) has_holder: bool,
}

/// The next step for a document that is to be listened to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    New(TargetId),
    /// The server is being asked.
    Asked,
    /// It is listened to.
    Heard,
    TooMany,
}

/// The news for the watches of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The document is listened to. If the server said meanwhile that there is a lock, the lock.
    Listening(String, Option<Told>),
    MayBeFree(String),
    /// The server does not listen any more.
    Refused(String),
}

impl Targets {
    /// So many documents are listened to at the most.
    const LIMIT: usize = 1_000;

    pub(super) fn add(&mut self, name: &str) -> Added {
        if let Some(target) = self.targets.get_mut(name) {
            let Some(asked) = &mut target.asked else { return Added::Heard };
            asked.has_joined = true;
            return Added::Asked;
        }
        if self.targets.len() >= Self::LIMIT {
            return Added::TooMany;
        }
        self.last += 1;
        let target = Target { id: self.last, asked: Some(Asked::default()) };
        self.targets.insert(name.to_owned(), target);
        Added::New(self.last)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<TargetId> {
        self.targets.remove(name).map(|target| target.id)
    }

    /// Whether the server is being asked for any.
    pub(super) fn are_asked(&self) -> bool {
        self.targets.values().any(|target| target.asked.is_some())
    }

    /// Notes what the server says.
    pub(super) fn hear(&mut self, answer: ResponseType) -> Vec<News> {
        match answer {
            ResponseType::TargetChange(change) => self.changed(&change),
            ResponseType::DocumentChange(change) => {
                let Some(document) = change.document else { return Vec::new() };
                if change.target_ids.is_empty() {
                    return self.gone(&document.name).into_iter().collect();
                }
                let target = self.targets.get_mut(&document.name);
                // Once the document is listened to, there is no news in that: it is not free.
                if let Some(asked) = target.and_then(|target| target.asked.as_mut()) {
                    // What cannot be read is no lock that one could wait for.
                    asked.lock = Record::read(document).ok().map(|record| Told {
                        expires_at: record.expires_at,
                        has_holder: record.has_holder,
                    });
                }
                Vec::new()
            }
            ResponseType::DocumentDelete(gone) => self.gone(&gone.document).into_iter().collect(),
            ResponseType::DocumentRemove(gone) => self.gone(&gone.document).into_iter().collect(),
            // Documents of the target are gone, and the server does not know which: a target has one.
            ResponseType::Filter(filter) if filter.count == 0 => {
                self.may_be_gone(&[filter.target_id])
            }
            ResponseType::Filter(_) => Vec::new(),
        }
    }

    fn changed(&mut self, change: &TargetChange) -> Vec<News> {
        let ids = &change.target_ids;
        match change.target_change_type() {
            TargetChangeType::Current => {
                let of_these = self.targets.iter_mut().filter(|(_, target)| target.is_of(ids));
                let listening = of_these.filter_map(|(name, target)| {
                    Some(News::Listening(name.clone(), target.asked.take()?.lock()))
                });
                listening.collect()
            }
            TargetChangeType::Remove => {
                let refused = self.targets.extract_if(|_, target| target.is_of(ids));
                refused.map(|(name, _)| News::Refused(name)).collect()
            }
            // The first state comes once more, without a word on a document that is gone since.
            TargetChangeType::Reset => self.may_be_gone(ids),
            TargetChangeType::Add | TargetChangeType::NoChange => Vec::new(),
        }
    }

    /// The documents of these targets may be gone, without a word on each.
    fn may_be_gone(&mut self, ids: &[TargetId]) -> Vec<News> {
        let of_these = self.targets.iter().filter(|(_, target)| target.is_of(ids));
        let names: Vec<_> = of_these.map(|(name, _)| name.clone()).collect();
        names.iter().filter_map(|name| self.gone(name)).collect()
    }

    /// A document is gone, or was not there.
    fn gone(&mut self, name: &str) -> Option<News> {
        let target = self.targets.get_mut(name)?;
        if let Some(asked) = &mut target.asked {
            asked.was_gone = true;
            return None;
        }
        Some(News::MayBeFree(name.to_owned()))
    }
}

impl Target {
    /// No ids stand for all targets.
    fn is_of(&self, ids: &[TargetId]) -> bool {
        ids.is_empty() || ids.contains(&self.id)
    }
}

impl Asked {
    fn lock(self) -> Option<Told> {
        self.lock.filter(|_| !self.was_gone && !self.has_joined)
    }
}

#[cfg(test)]
mod tests {
    use gcloud_sdk::google::firestore::v1::{
        Document, DocumentChange, DocumentDelete, ExistenceFilter,
    };
    use syncguard_core::contract::Holder;
    use syncguard_core::{Fence, Key, LockId};

    use super::*;

    fn heard(kind: TargetChangeType, ids: &[TargetId]) -> ResponseType {
        ResponseType::TargetChange(TargetChange {
            target_change_type: kind.into(),
            target_ids: ids.to_vec(),
            ..TargetChange::default()
        })
    }

    const CURRENT: TargetChangeType = TargetChangeType::Current;

    fn gone(name: &str) -> ResponseType {
        let document = name.to_owned();
        ResponseType::DocumentDelete(DocumentDelete { document, ..DocumentDelete::default() })
    }

    fn locked(name: &str) -> ResponseType {
        let times = [1, 7].map(|millis| Timestamp::from_millis(millis).unwrap());
        let (key, fence) = (Key::new("k").unwrap(), Fence::new(1).unwrap());
        let lock_id = LockId::generate().unwrap();
        let updated = gcloud_sdk::prost_types::Timestamp::default();
        let (name, holder) = (name.to_owned(), Holder::unnamed());
        let document = Record::document(name, &key, lock_id, times.into(), fence, &holder);
        let document = Document { update_time: Some(updated), ..document };
        let (document, target_ids) = (Some(document), vec![1]);
        ResponseType::DocumentChange(DocumentChange {
            document,
            target_ids,
            ..DocumentChange::default()
        })
    }

    fn listening(name: &str, expires: Option<u64>) -> Vec<News> {
        let told = expires.map(|millis| Told {
            expires_at: Timestamp::from_millis(millis).unwrap(),
            has_holder: true,
        });
        vec![News::Listening(name.to_owned(), told)]
    }

    fn may_be_free(name: &str) -> Vec<News> {
        vec![News::MayBeFree(name.to_owned())]
    }

    #[test]
    fn a_document_is_listened_to_once_the_server_has_said_everything() {
        let mut targets = Targets::default();
        assert_eq!(targets.add("a"), Added::New(1));
        assert_eq!(targets.hear(locked("a")), []);
        assert_eq!(targets.hear(heard(CURRENT, &[2])), [], "another one");
        assert!(targets.are_asked());
        assert_eq!(targets.hear(heard(CURRENT, &[1])), listening("a", Some(7)));
        assert!(!targets.are_asked());
        assert_eq!(targets.add("a"), Added::Heard);
        assert_eq!(targets.hear(locked("a")), [], "it is not free");
        assert_eq!(targets.hear(gone("a")), may_be_free("a"));
        assert_eq!((targets.remove("a"), targets.remove("a")), (Some(1), None));
        assert_eq!(targets.hear(gone("a")), []);
    }

    #[test]
    fn a_first_state_that_comes_after_its_end_is_no_lock() {
        let mut targets = Targets::default();
        targets.add("a");
        assert_eq!(targets.hear(gone("a")), [], "no news at first");
        assert_eq!(targets.hear(locked("a")), []);
        assert_eq!(targets.hear(heard(CURRENT, &[])), listening("a", None));
    }

    #[test]
    fn a_watch_that_joins_before_the_answer_is_told_of_no_lock() {
        let mut targets = Targets::default();
        targets.add("a");
        assert_eq!(targets.add("a"), Added::Asked);
        targets.hear(locked("a"));
        assert_eq!(targets.hear(heard(CURRENT, &[1])), listening("a", None));
    }

    #[test]
    fn a_document_that_may_be_gone_is_news() {
        let mut targets = Targets::default();
        targets.add("a");
        targets.hear(locked("a"));
        let reset = |ids| heard(TargetChangeType::Reset, ids);
        assert_eq!(targets.hear(reset(&[1])), []);
        assert_eq!(targets.hear(heard(CURRENT, &[1])), listening("a", None), "to be looked at");
        assert_eq!(targets.hear(reset(&[2])), []);
        assert_eq!(targets.hear(reset(&[1])), may_be_free("a"));
        assert_eq!(targets.hear(reset(&[])), may_be_free("a"));
        let filter = |count| {
            let filter = ExistenceFilter { target_id: 1, count, ..ExistenceFilter::default() };
            ResponseType::Filter(filter)
        };
        assert_eq!(targets.hear(filter(0)), may_be_free("a"));
        assert_eq!(targets.hear(filter(1)), []);
    }

    #[test]
    fn what_the_server_refuses_is_over() {
        let mut targets = Targets::default();
        targets.add("a");
        targets.add("b");
        let refused = |name: &str| [News::Refused(name.to_owned())];
        assert_eq!(targets.hear(heard(TargetChangeType::Remove, &[1])), refused("a"));
        assert_eq!(targets.hear(heard(TargetChangeType::Remove, &[])), refused("b"));
    }

    #[test]
    fn there_is_a_limit_to_documents() {
        let mut targets = Targets::default();
        for number in 0..Targets::LIMIT {
            assert!(matches!(targets.add(&number.to_string()), Added::New(_)));
        }
        assert_eq!(targets.add("one more"), Added::TooMany);
        assert_eq!(targets.add("1"), Added::Asked);
    }
}
