//! Who watches which key, and what the server is to be told of it.

use std::collections::HashMap;

use syncguard_core::contract::KeySignal;
use tokio::sync::oneshot;

/// The watches of one session.
#[derive(Default)]
pub(super) struct Board {
    keys: HashMap<String, Entry>,
    /// The keys that the session holds the numbers of.
    numbers: HashMap<i64, String>,
    /// Keys that the server is to be asked for. Some of them may be gone.
    unasked: Vec<String>,
    /// Numbers that the session is to let go of.
    unwatched: Vec<i64>,
    last_watcher: Watcher,
}

/// One watch among those of a key.
pub(super) type Watcher = u64;

/// A key that somebody watches, or has watched a moment ago.
struct Entry {
    hold: Hold,
    watchers: Vec<(Watcher, KeySignal)>,
    /// Those who wait for the number to be held.
    waiting: Vec<oneshot::Sender<()>>,
}

/// What the session has of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Nothing,
    /// The server has been asked.
    Asked,
    /// The key's number.
    Number(i64),
}

/// What the server is asked next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// Storage keys to watch.
    pub(super) keys: Vec<String>,
    /// Numbers to let go of.
    pub(super) unwatched: Vec<i64>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.unwatched.is_empty()
    }
}

impl Board {
    /// Adds a watch, unless there are this many keys. The receiver hears once the key is watched, and
    /// ends without a word if it will not be.
    pub(super) fn join(
        &mut self,
        key: &str,
        signal: KeySignal,
        limit: usize,
    ) -> Option<(Watcher, oneshot::Receiver<()>)> {
        if self.keys.len() >= limit && !self.keys.contains_key(key) {
            return None;
        }
        let unasked = &mut self.unasked;
        let entry = self.keys.entry(key.to_owned()).or_insert_with(|| {
            unasked.push(key.to_owned());
            Entry { hold: Hold::Nothing, watchers: Vec::new(), waiting: Vec::new() }
        });
        self.last_watcher += 1;
        let watcher = self.last_watcher;
        entry.watchers.push((watcher, signal));
        let (sender, receiver) = oneshot::channel();
        match entry.hold {
            Hold::Number(_) => drop(sender.send(())),
            Hold::Nothing | Hold::Asked => entry.waiting.push(sender),
        }
        Some((watcher, receiver))
    }

    /// Ends a watch.
    pub(super) fn leave(&mut self, key: &str, watcher: Watcher) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        entry.watchers.retain(|(other, _)| *other != watcher);
        if entry.watchers.is_empty() {
            self.drop_unwatched(key);
        }
    }

    /// Forgets a key that nobody watches, unless the server is about to answer for it.
    fn drop_unwatched(&mut self, key: &str) {
        match self.keys.get(key).map(|entry| entry.hold) {
            None | Some(Hold::Asked) => return,
            Some(Hold::Nothing) => {}
            Some(Hold::Number(number)) => {
                self.unwatched.push(number);
                // With another key of the same number, signals go on.
                if self.numbers.get(&number).is_some_and(|holder| holder == key) {
                    self.numbers.remove(&number);
                }
            }
        }
        self.keys.remove(key);
    }

    /// What the server is to be asked, which is answered with [`answered`](Self::answered).
    pub(super) fn next_batch(&mut self) -> Batch {
        let mut batch = Batch { keys: Vec::new(), unwatched: std::mem::take(&mut self.unwatched) };
        for key in self.unasked.drain(..) {
            if let Some(entry) = self.keys.get_mut(&key)
                && entry.hold == Hold::Nothing
            {
                entry.hold = Hold::Asked;
                batch.keys.push(key);
            }
        }
        batch
    }

    /// The server has answered for a key: its number, and whether the session holds it now. If not, the
    /// key is in the next batch again.
    pub(super) fn answered(&mut self, key: &str, number: i64, is_held: bool) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        if is_held {
            entry.hold = Hold::Number(number);
            self.numbers.insert(number, key.to_owned());
            for waiting in entry.waiting.drain(..) {
                let _ = waiting.send(());
            }
        } else {
            entry.hold = Hold::Nothing;
            self.unasked.push(key.to_owned());
        }
        if entry.watchers.is_empty() {
            self.drop_unwatched(key);
        }
    }

    /// Leaves this many keys: of the others, those end that the server was not asked for.
    pub(super) fn shrink_to(&mut self, limit: usize) {
        let mut surplus = self.keys.len().saturating_sub(limit);
        self.keys.retain(|_, entry| {
            let stays = surplus == 0 || entry.hold != Hold::Nothing;
            surplus -= usize::from(!stays);
            stays
        });
    }

    /// The lock of the key with this number may be free.
    pub(super) fn signal(&self, number: i64) {
        let key = self.numbers.get(&number);
        for (_, signal) in key.and_then(|key| self.keys.get(key)).iter().flat_map(|e| &e.watchers) {
            signal.signal();
        }
    }

    /// Whether there is nothing to listen for, and nothing to tell the server.
    pub(super) fn is_idle(&self) -> bool {
        self.keys.is_empty() && self.unwatched.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use syncguard_core::contract::KeyWatch;

    use super::*;

    const MANY: usize = 100;

    fn join(board: &mut Board, key: &str) -> (Watcher, oneshot::Receiver<()>, KeyWatch) {
        let (signal, watch) = KeyWatch::new();
        let (watcher, watched) = board.join(key, signal, MANY).unwrap();
        (watcher, watched, watch)
    }

    fn batch(keys: &[&str], unwatched: &[i64]) -> Batch {
        Batch {
            keys: keys.iter().map(ToString::to_string).collect(),
            unwatched: unwatched.to_vec(),
        }
    }

    #[tokio::test]
    async fn a_watch_is_confirmed_once_the_number_is_held_and_let_go_of_with_the_last_one() {
        let mut board = Board::default();
        let (first, mut watched, mut watch) = join(&mut board, "k");
        assert_eq!(board.next_batch(), batch(&["k"], &[]));
        assert!(board.next_batch().is_empty(), "asked already");
        assert!(watched.try_recv().is_err());
        board.answered("k", 7, true);
        watched.await.unwrap();

        let (second, watched, mut other) = join(&mut board, "k");
        watched.await.unwrap();
        assert!(board.next_batch().is_empty(), "they share it");
        board.signal(7);
        board.signal(8);
        watch.changed().await;
        other.changed().await;
        assert!(!watch.is_over() && !other.is_over());

        board.leave("k", first);
        assert!(watch.is_over() && !other.is_over());
        assert!(board.next_batch().is_empty());
        board.leave("k", second);
        assert!(!board.is_idle(), "the server is still to be told");
        assert_eq!(board.next_batch(), batch(&[], &[7]));
        assert!(board.is_idle() && board.numbers.is_empty());
    }

    #[test]
    fn a_number_that_is_taken_is_asked_for_again() {
        let mut board = Board::default();
        let (_, mut watched, _watch) = join(&mut board, "k");
        for _ in 0..3 {
            assert_eq!(board.next_batch(), batch(&["k"], &[]));
            board.answered("k", 7, false);
            assert!(watched.try_recv().is_err());
        }
    }

    #[test]
    fn a_watch_that_ends_while_the_server_is_asked_is_undone() {
        for is_held in [true, false] {
            let mut board = Board::default();
            let (watcher, ..) = join(&mut board, "k");
            board.next_batch();
            board.leave("k", watcher);
            assert!(!board.is_idle());
            board.answered("k", 7, is_held);
            let unwatched: &[i64] = if is_held { &[7] } else { &[] };
            assert_eq!(board.next_batch(), batch(&[], unwatched));
            assert!(board.is_idle() && board.numbers.is_empty());
        }
    }

    #[tokio::test]
    async fn one_that_comes_while_the_server_is_asked_for_another_is_served_with_it() {
        let mut board = Board::default();
        let (watcher, ..) = join(&mut board, "k");
        board.next_batch();
        board.leave("k", watcher);
        let (_, watched, watch) = join(&mut board, "k");
        board.answered("k", 7, true);
        watched.await.unwrap();
        assert!(!watch.is_over() && board.next_batch().is_empty());
    }

    #[test]
    fn a_key_that_comes_back_at_once_is_watched_anew() {
        let mut board = Board::default();
        let (watcher, ..) = join(&mut board, "k");
        board.next_batch();
        board.answered("k", 7, true);
        board.leave("k", watcher);
        let (_, mut watched, _watch) = join(&mut board, "k");
        assert!(watched.try_recv().is_err());
        // In whatever order the server does it, the number is held in the end.
        assert_eq!(board.next_batch(), batch(&["k"], &[7]));
        board.answered("k", 7, true);
        watched.try_recv().unwrap();
    }

    #[test]
    fn there_is_a_limit_to_keys_and_none_to_those_who_share_one() {
        let mut board = Board::default();
        let mut watches = Vec::new();
        let mut join = |key: &str| {
            let (signal, watch) = KeyWatch::new();
            watches.push(watch);
            board.join(key, signal, 2).is_some()
        };
        assert!(join("a") && join("b") && !join("c") && join("a"));
        board.shrink_to(1);
        assert_eq!(board.next_batch().keys.len(), 1);
    }

    #[test]
    fn a_board_that_is_gone_ends_all_watches() {
        let mut board = Board::default();
        let (_, mut watched, watch) = join(&mut board, "k");
        drop(board);
        assert!(watch.is_over() && watched.try_recv().is_err());
    }
}
