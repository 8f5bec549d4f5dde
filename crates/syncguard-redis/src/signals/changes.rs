//! Changes that the server told of and that were none.

use std::collections::HashMap;
use std::time::Duration;

use syncguard_core::{Fence, Timestamp};
use tokio::time::Instant;

/// The records that the server said of late to have changed.
pub(super) struct Changes {
    records: HashMap<Box<str>, Change>,
    /// How many of them there may be before the old ones are thrown away.
    most: usize,
}

/// The marks of one state of a locked record: each acquisition has a fence of its own, and each
/// extend changes the expiry.
pub(super) type Seen = (Fence, Timestamp);

struct Change {
    at: Instant,
    /// The state before it.
    seen: Seen,
    /// How often in a row the state afterwards was the same.
    in_vain: u32,
}

impl Changes {
    /// For how long a record is not watched of which the server told a change that was none. The server has more
    /// records to remember than it may (`tracking-table-max-keys`): with each record that is read again it forgets
    /// another record, and says that this one has changed.
    const REST: Duration = Duration::from_secs(5);
    /// Once is no sign: what the server said before the record was read may be heard after the answer.
    const OFTEN: u32 = 2;
    /// So many changes are always remembered.
    const FEW: usize = 64;

    pub(super) fn new() -> Self {
        Self { records: HashMap::new(), most: Self::FEW }
    }

    /// Whether a record is to be left alone.
    pub(super) fn rests(&self, name: &str, now: Instant) -> bool {
        self.records
            .get(name)
            .is_some_and(|change| Self::is_often(change.in_vain) && change.is_recent(now))
    }

    /// Whether a record that has changed in vain so often rests.
    pub(super) fn is_often(in_vain: u32) -> bool {
        in_vain >= Self::OFTEN
    }

    /// A record was read. How often in a row it was said to have changed, and has not.
    pub(super) fn in_vain(&mut self, name: &str, seen: Seen, now: Instant) -> u32 {
        let change = self.records.remove(name);
        let change = change.filter(|change| change.seen == seen && change.is_recent(now));
        change.map_or(0, |change| change.in_vain + 1)
    }

    /// The server says that a record has changed.
    pub(super) fn note(&mut self, name: &str, seen: Seen, in_vain: u32, at: Instant) {
        if self.records.len() >= self.most {
            self.records.retain(|_, change| change.is_recent(at));
            self.most = Self::FEW.max(2 * self.records.len());
        }
        self.records.insert(name.into(), Change { at, seen, in_vain });
    }
}

impl Change {
    fn is_recent(&self, now: Instant) -> bool {
        now < self.at + Changes::REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(fence: u64, expiry: u64) -> Seen {
        let expires_at = Timestamp::from_millis(expiry).expect("a time");
        (Fence::new(fence).expect("a fence"), expires_at)
    }

    /// Reads a record, and hears that it has changed.
    fn read_and_change(changes: &mut Changes, state: Seen, now: Instant) -> bool {
        let in_vain = changes.in_vain("a", state, now);
        changes.note("a", state, in_vain, now);
        changes.rests("a", now)
    }

    #[test]
    fn a_record_rests_that_is_often_said_to_have_changed_and_has_not() {
        let start = Instant::now();
        let mut changes = Changes::new();
        let rests = [(); 3].map(|()| read_and_change(&mut changes, seen(1, 5), start));
        assert_eq!((rests, changes.rests("b", start)), ([false, false, true], false));
        // After its rest, it is as any other.
        let later = start + Changes::REST;
        assert!(!changes.rests("a", later) && changes.in_vain("a", seen(1, 5), later) == 0);
    }

    #[test]
    fn a_record_that_changes_does_not_rest() {
        let now = Instant::now();
        let mut changes = Changes::new();
        for (fence, expiry) in [(1, 5), (1, 5), (1, 6), (1, 6), (2, 6), (2, 6), (1, 5), (1, 5)] {
            assert!(!read_and_change(&mut changes, seen(fence, expiry), now));
        }
    }

    #[test]
    fn old_changes_are_thrown_away() {
        let start = Instant::now();
        let mut changes = Changes::new();
        for second in 0..1000_u32 {
            let now = start + Duration::from_secs(second.into());
            changes.note(&format!("k{second}"), seen(1, 5), 0, now);
        }
        assert!(changes.records.len() <= Changes::FEW, "{}", changes.records.len());
    }
}
