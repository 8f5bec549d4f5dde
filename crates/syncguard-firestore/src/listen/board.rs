//! Which documents are listened to, and who wants to hear of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use syncguard_core::Timestamp;
use syncguard_core::contract::KeySignal;
use tokio::sync::oneshot;

/// The documents of one stream.
#[derive(Default)]
pub(super) struct Board {
    targets: HashMap<String, Target>,
    last_target: TargetId,
    last_watcher: Watcher,
}

pub(super) type TargetId = i32;

/// One watch among those of a document.
pub(super) type Watcher = u64;

struct Target {
    id: TargetId,
    /// Until the server has said everything until the target was added.
    asked: Option<Asked>,
    watchers: Vec<(Watcher, KeySignal)>,
}

/// What the server has said so far, and who waits for the rest.
struct Asked {
    /// Whoever had the target added. What is said is news for this one: the server was asked after.
    first: oneshot::Sender<Option<Told>>,
    /// The others.
    others: Vec<oneshot::Sender<Option<Told>>>,
    /// The lock in the document; `None` without one.
    lock: Option<Told>,
    /// Whether the document was gone meanwhile. What comes after that may be older: the emulator sends
    /// the first state of a document and what happens meanwhile in any order.
    was_gone: bool,
}

/// What the server tells of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) expires_at: Timestamp,
    /// Whether it was written with a holder.
    pub(super) has_holder: bool,
}

impl Target {
    fn gone(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.was_gone = true;
            return;
        }
        for (_, signal) in &self.watchers {
            signal.signal();
        }
    }
}

/// A watch that was added.
pub(super) struct Joined {
    pub(super) watcher: Watcher,
    /// Hears once the document is listened to: the lock in it, if the server said after
    /// this watch began that there is one. A watch that joined others hears of no lock: what is known
    /// may be over, with the news of it still on its way.
    pub(super) current: oneshot::Receiver<Option<Told>>,
    /// The target to add to the stream.
    pub(super) new: Option<TargetId>,
}

impl Board {
    /// So many documents are listened to at the most. Those who wait for others look from time to time.
    const LIMIT: usize = 1_000;

    pub(super) fn join(&mut self, name: &str, signal: KeySignal) -> Option<Joined> {
        if self.targets.len() >= Self::LIMIT && !self.targets.contains_key(name) {
            return None;
        }
        self.last_watcher += 1;
        let (sender, current) = oneshot::channel();
        let mut new = None;
        match self.targets.entry(name.to_owned()) {
            Entry::Vacant(vacant) => {
                self.last_target += 1;
                let id = self.last_target;
                new = Some(id);
                let others = Vec::new();
                let asked = Asked { first: sender, others, lock: None, was_gone: false };
                let watchers = vec![(self.last_watcher, signal)];
                vacant.insert(Target { id, asked: Some(asked), watchers });
            }
            Entry::Occupied(mut occupied) => {
                let target = occupied.get_mut();
                target.watchers.push((self.last_watcher, signal));
                match &mut target.asked {
                    Some(asked) => asked.others.push(sender),
                    // The receiver is here.
                    None => drop(sender.send(None)),
                }
            }
        }
        Some(Joined { watcher: self.last_watcher, current, new })
    }

    /// Ends a watch. The target to remove from the stream, if it was the last one.
    pub(super) fn leave(&mut self, name: &str, watcher: Watcher) -> Option<TargetId> {
        let target = self.targets.get_mut(name)?;
        target.watchers.retain(|(other, _)| *other != watcher);
        if !target.watchers.is_empty() {
            return None;
        }
        self.targets.remove(name).map(|target| target.id)
    }

    /// The server has said everything until these targets were added; all of them if there are none.
    pub(super) fn current(&mut self, ids: &[TargetId]) {
        for target in self.targets.values_mut() {
            if !ids.is_empty() && !ids.contains(&target.id) {
                continue;
            }
            // Whoever has stopped waiting needs no answer.
            if let Some(asked) = target.asked.take() {
                let _ = asked.first.send(asked.lock.filter(|_| !asked.was_gone));
                for other in asked.others {
                    let _ = other.send(None);
                }
            }
        }
    }

    /// A document has changed. Once it is listened to, there is no news in that: it is not free.
    pub(super) fn changed(&mut self, name: &str, lock: Option<Told>) {
        if let Some(asked) = self.targets.get_mut(name).and_then(|target| target.asked.as_mut()) {
            asked.lock = lock;
        }
    }

    /// A document is gone, or was not there.
    pub(super) fn gone(&mut self, name: &str) {
        if let Some(target) = self.targets.get_mut(name) {
            target.gone();
        }
    }

    /// The documents of these targets may be gone, without a word on each; those of all targets if there are no ids.
    pub(super) fn may_be_gone(&mut self, ids: &[TargetId]) {
        for target in self.targets.values_mut() {
            if ids.is_empty() || ids.contains(&target.id) {
                target.gone();
            }
        }
    }

    /// The server does not listen to these any more; to none at all if there are no ids.
    pub(super) fn refused(&mut self, ids: &[TargetId]) {
        self.targets.retain(|_, target| !ids.is_empty() && !ids.contains(&target.id));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use syncguard_core::contract::KeyWatch;

    use super::*;

    fn told() -> Told {
        Told { expires_at: Timestamp::from_millis(7).unwrap(), has_holder: true }
    }

    fn join(board: &mut Board, name: &str) -> (Joined, KeyWatch) {
        let (signal, watch) = KeyWatch::new();
        (board.join(name, signal).unwrap(), watch)
    }

    #[tokio::test]
    async fn a_watch_is_confirmed_once_the_server_has_said_everything() {
        let mut board = Board::default();
        let (mut first, mut watch) = join(&mut board, "a");
        assert_eq!(first.new, Some(1));
        let lock = told();
        board.changed("a", Some(lock));
        assert!(first.current.try_recv().is_err());
        board.current(&[2]);
        assert!(first.current.try_recv().is_err(), "another one");
        board.current(&[1]);
        assert_eq!(first.current.await.unwrap(), Some(lock));

        let (second, mut other) = join(&mut board, "a");
        let known = (second.new, second.current.await.unwrap());
        assert_eq!(known, (None, None), "what was heard before may be over");
        board.gone("a");
        watch.changed().await;
        other.changed().await;
        assert!(!watch.is_over() && !other.is_over());

        assert_eq!(board.leave("a", first.watcher), None);
        assert_eq!(board.leave("a", second.watcher), Some(1));
        assert!(board.is_empty());
    }

    #[tokio::test]
    async fn a_first_state_that_comes_after_its_end_is_no_lock() {
        let mut board = Board::default();
        let (joined, _watch) = join(&mut board, "a");
        board.gone("a");
        board.changed("a", Some(told()));
        board.current(&[1]);
        assert_eq!(joined.current.await.unwrap(), None);
    }

    #[tokio::test]
    async fn who_joins_before_the_answer_is_told_of_no_lock() {
        let mut board = Board::default();
        let (first, _one) = join(&mut board, "a");
        let (second, _two) = join(&mut board, "a");
        let lock = told();
        board.changed("a", Some(lock));
        board.current(&[1]);
        assert_eq!(first.current.await.unwrap(), Some(lock));
        assert_eq!(second.current.await.unwrap(), None, "the server was asked before");
    }

    #[tokio::test]
    async fn a_document_that_is_not_there_is_no_news_at_first() {
        let mut board = Board::default();
        let (joined, watch) = join(&mut board, "a");
        board.gone("a");
        board.current(&[]);
        assert_eq!(joined.current.await.unwrap(), None);
        let mut watch = std::pin::pin!(async move {
            let mut watch = watch;
            watch.changed().await;
        });
        tokio::select! {
            biased;
            () = &mut watch => panic!("nobody has signalled"),
            () = std::future::ready(()) => {}
        }
    }

    #[tokio::test]
    async fn a_document_that_may_be_gone_is_news() {
        let mut board = Board::default();
        let (first, mut watch) = join(&mut board, "a");
        board.changed("a", Some(told()));
        board.may_be_gone(&[1]);
        board.current(&[1]);
        assert_eq!(first.current.await.unwrap(), None, "it is to be looked at again");
        board.may_be_gone(&[2]);
        board.may_be_gone(&[1]);
        watch.changed().await;
        board.may_be_gone(&[]);
        watch.changed().await;
    }

    #[test]
    fn what_the_server_refuses_is_over() {
        let mut board = Board::default();
        let (mut one, watch) = join(&mut board, "a");
        let (_, other) = join(&mut board, "b");
        board.refused(&[1]);
        assert!(watch.is_over() && !other.is_over() && one.current.try_recv().is_err());
        board.refused(&[]);
        assert!(other.is_over() && board.is_empty());
    }

    #[test]
    fn there_is_a_limit_to_documents_and_none_to_those_who_share_one() {
        let mut board = Board::default();
        let mut watches = Vec::new();
        let mut join = |name: String| {
            let (signal, watch) = KeyWatch::new();
            watches.push(watch);
            board.join(&name, signal).is_some()
        };
        assert!((0..Board::LIMIT).all(|number| join(number.to_string())));
        assert!(!join("one more".to_owned()));
        assert!(join("1".to_owned()));
    }
}
