//! Who watches which record.

use std::collections::HashMap;
use std::time::Duration;

use syncguard_core::contract::KeySignal;
use syncguard_core::{Fence, Timestamp};
use tokio::time::Instant;

/// The watches of one session, by the names of the records.
pub(super) struct Board {
    records: HashMap<Box<str>, Record>,
    last_watcher: Watcher,
    /// The records that the server said of late to have changed.
    changed: HashMap<Box<str>, Change>,
    /// How many of these there may be before the old ones are thrown away.
    most_changed: usize,
    /// Since when there is nobody, where there is nobody.
    idle_since: Instant,
}

/// One watch among those of a record.
pub(super) type Watcher = u64;

/// Those of a record. They are over when this is dropped.
type Watches = Vec<(Watcher, KeySignal)>;

#[derive(Default)]
struct Record {
    watches: Watches,
    /// The state that was read, and how often in a row it was the same after the server had said that it changed.
    seen: Option<(Seen, u32)>,
}

/// The marks of one state of a locked record: each acquisition has a fence of its own, and each
/// extend changes the expiry.
pub(super) type Seen = (Fence, Timestamp);

/// A change that the server told of.
struct Change {
    at: Instant,
    /// The state before it.
    seen: Seen,
    /// How often in a row the same was there afterwards.
    in_vain: u32,
}

impl Board {
    /// For how long a record is not watched of which the server told a change that was none. It has more records
    /// to remember than it may (`tracking-table-max-keys`): with each one that is read again it forgets another one,
    /// and says that it has changed.
    const REST: Duration = Duration::from_secs(5);
    /// Once is no sign: what the server said before it was read may be heard after the answer.
    const OFTEN: u32 = 2;
    /// So many changes are always remembered.
    const FEW: usize = 64;

    pub(super) fn new(now: Instant) -> Self {
        Self {
            records: HashMap::new(),
            last_watcher: 0,
            changed: HashMap::new(),
            most_changed: Self::FEW,
            idle_since: now,
        }
    }

    /// Adds a watch.
    pub(super) fn join(&mut self, name: &str, signal: KeySignal) -> Watcher {
        self.last_watcher += 1;
        self.records.entry(name.into()).or_default().watches.push((self.last_watcher, signal));
        self.last_watcher
    }

    /// Ends a watch.
    pub(super) fn leave(&mut self, name: &str, watcher: Watcher, now: Instant) {
        let Some(record) = self.records.get_mut(name) else { return };
        record.watches.retain(|(other, _)| *other != watcher);
        if record.watches.is_empty() {
            self.remove(name, now);
        }
    }

    /// Takes the watches of a record that has changed, as the server says.
    pub(super) fn take(&mut self, name: &str, now: Instant) -> Option<Watches> {
        let record = self.remove(name, now)?;
        if let Some((seen, in_vain)) = record.seen {
            self.remember(name, Change { at: now, seen, in_vain });
        }
        Some(record.watches)
    }

    fn remove(&mut self, name: &str, now: Instant) -> Option<Record> {
        let record = self.records.remove(name)?;
        if self.records.is_empty() {
            self.idle_since = now;
        }
        Some(record)
    }

    /// Whether a record is to be left alone.
    pub(super) fn rests(&self, name: &str, now: Instant) -> bool {
        let change = self.changed.get(name);
        change.is_some_and(|change| change.in_vain >= Self::OFTEN && change.is_recent(now))
    }

    /// A record was read by one who joined. Whether it rests, as it was often said to have changed and has not.
    pub(super) fn saw(&mut self, name: &str, seen: Seen, now: Instant) -> bool {
        let change = self.changed.remove(name);
        let change = change.filter(|change| change.seen == seen && change.is_recent(now));
        let in_vain = change.map_or(0, |change| change.in_vain + 1);
        let rests = in_vain >= Self::OFTEN;
        match self.records.get_mut(name).filter(|_| !rests) {
            Some(record) if record.seen.is_some_and(|(before, _)| before == seen) => {}
            Some(record) => record.seen = Some((seen, in_vain)),
            // It rests, or a change was heard before the answer.
            None => self.remember(name, Change { at: now, seen, in_vain }),
        }
        rests
    }

    fn remember(&mut self, name: &str, change: Change) {
        if self.changed.len() >= self.most_changed {
            let now = change.at;
            self.changed.retain(|_, change| change.is_recent(now));
            self.most_changed = Self::FEW.max(2 * self.changed.len());
        }
        self.changed.insert(name.into(), change);
    }

    /// Takes all watches.
    pub(super) fn take_all(&mut self, now: Instant) -> Vec<Watches> {
        if !self.records.is_empty() {
            self.idle_since = now;
        }
        let records = std::mem::take(&mut self.records);
        records.into_values().map(|record| record.watches).collect()
    }

    /// Since when there is nobody; `None` if there is somebody.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.records.is_empty().then_some(self.idle_since)
    }
}

impl Change {
    fn is_recent(&self, now: Instant) -> bool {
        now < self.at + Board::REST
    }
}

#[cfg(test)]
mod tests {
    use syncguard_core::contract::KeyWatch;

    use super::*;

    fn join(board: &mut Board, name: &str) -> (Watcher, KeyWatch) {
        let (signal, watch) = KeyWatch::new();
        (board.join(name, signal), watch)
    }

    #[test]
    fn a_change_ends_the_watches_of_its_record_and_no_others() {
        let now = Instant::now();
        let mut board = Board::new(now);
        let ((_, first), (_, second)) = (join(&mut board, "a"), join(&mut board, "a"));
        let (_, other) = join(&mut board, "b");
        drop(board.take("a", now));
        assert!(first.is_over() && second.is_over() && !other.is_over());
        assert!(board.take("a", now).is_none(), "said once");
        drop(board.take_all(now));
        assert!(other.is_over());
    }

    #[test]
    fn one_that_leaves_leaves_nothing_behind() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut board = Board::new(start);
        assert_eq!(board.idle_since(), Some(start));
        let ((first, _), (second, watch)) = (join(&mut board, "a"), join(&mut board, "a"));
        board.leave("a", first, later(1));
        assert!(!watch.is_over());
        assert_eq!(board.idle_since(), None);
        board.leave("a", second, later(2));
        assert!(watch.is_over() && board.records.is_empty());
        board.leave("a", second, later(3));
        // What changes without being watched is no reason to stay.
        assert!(board.take("a", later(4)).is_none() && board.take_all(later(4)).is_empty());
        assert_eq!(board.idle_since(), Some(later(2)));
    }

    fn seen(fence: u64, expiry: u64) -> Seen {
        let expires_at = Timestamp::from_millis(expiry).expect("a time");
        (Fence::new(fence).expect("a fence"), expires_at)
    }

    #[test]
    fn a_record_rests_that_is_often_said_to_have_changed_and_has_not() {
        let start = Instant::now();
        let mut board = Board::new(start);
        for (heard_first, rests) in [(false, false), (true, false), (false, true)] {
            let _watch = join(&mut board, "a");
            if heard_first {
                drop(board.take("a", start));
            }
            assert_eq!(board.saw("a", seen(1, 5), start), rests);
            assert_eq!((board.rests("a", start), board.rests("b", start)), (rests, false));
            drop(board.take("a", start));
        }
        // Once it has rested, it is as any other.
        let later = start + Board::REST;
        assert!(!board.rests("a", later) && !board.saw("a", seen(1, 5), later));
    }

    #[test]
    fn one_that_changes_does_not_rest() {
        let now = Instant::now();
        let mut board = Board::new(now);
        for (fence, expiry) in [(1, 5), (1, 5), (1, 6), (1, 6), (2, 6), (2, 6), (1, 5), (1, 5)] {
            // Two who watch see the same.
            let _watches = (join(&mut board, "a"), join(&mut board, "a"));
            for _ in 0..2 {
                assert!(!board.saw("a", seen(fence, expiry), now) && !board.rests("a", now));
            }
            drop(board.take("a", now));
        }
    }

    #[test]
    fn old_changes_are_thrown_away() {
        let start = Instant::now();
        let mut board = Board::new(start);
        for second in 0..1000_u32 {
            let (name, now) = (format!("k{second}"), start + Duration::from_secs(second.into()));
            board.saw(&name, seen(1, 5), now);
        }
        assert!(board.changed.len() <= Board::FEW, "{}", board.changed.len());
    }
}
