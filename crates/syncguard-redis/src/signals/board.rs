//! Who watches which record.

use std::collections::HashMap;

use syncguard_core::KeySignal;
use tokio::time::Instant;

/// The watches of one session, by the names of the records.
pub(super) struct Board {
    records: HashMap<Box<str>, Watches>,
    last_watcher: Watcher,
    /// Since when there is nobody, where there is nobody.
    idle_since: Instant,
}

/// One watch among those of a record.
pub(super) type Watcher = u64;

/// Those of a record. They are over when this is dropped.
type Watches = Vec<(Watcher, KeySignal)>;

impl Board {
    pub(super) fn new(now: Instant) -> Self {
        Self { records: HashMap::new(), last_watcher: 0, idle_since: now }
    }

    /// Adds a watch.
    pub(super) fn join(&mut self, name: &str, signal: KeySignal) -> Watcher {
        self.last_watcher += 1;
        self.records.entry(name.into()).or_default().push((self.last_watcher, signal));
        self.last_watcher
    }

    /// Ends a watch.
    pub(super) fn leave(&mut self, name: &str, watcher: Watcher, now: Instant) {
        let Some(watches) = self.records.get_mut(name) else { return };
        watches.retain(|(other, _)| *other != watcher);
        if watches.is_empty() {
            self.take(name, now);
        }
    }

    /// Takes the watches of a record.
    pub(super) fn take(&mut self, name: &str, now: Instant) -> Option<Watches> {
        let watches = self.records.remove(name)?;
        if self.records.is_empty() {
            self.idle_since = now;
        }
        Some(watches)
    }

    /// Takes all watches.
    pub(super) fn take_all(&mut self, now: Instant) -> Vec<Watches> {
        if !self.records.is_empty() {
            self.idle_since = now;
        }
        std::mem::take(&mut self.records).into_values().collect()
    }

    /// Since when there is nobody; `None` if there is somebody.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.records.is_empty().then_some(self.idle_since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syncguard_core::KeyWatch;

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
}
