//! False invalidations: the server reported a change of a record that had not changed.

use std::collections::HashMap;
use std::time::Duration;

use syncguard_core::{Fence, Timestamp};
use tokio::time::Instant;

/// The records that the server has reported as changed lately.
pub(super) struct Changes {
    records: HashMap<Box<str>, Change>,
    /// At this number of records, old ones are dropped.
    most: usize,
}

/// Identifies the state of a locked record: each acquisition has a new fence, and each extend changes the expiry.
pub(super) type Seen = (Fence, Timestamp);

struct Change {
    at: Instant,
    /// The state before the reported change.
    seen: Seen,
    /// How many reported changes in a row were false before this one.
    in_vain: u32,
}

impl Changes {
    /// A record with false changes is not watched for this time. The server's tracking table is full then
    /// (`tracking-table-max-keys`): for each record that is read again, the server forgets another record and reports
    /// that one as changed.
    const REST: Duration = Duration::from_secs(5);
    /// A single false change means nothing: a report from before the record was read may arrive after the answer.
    const OFTEN: u32 = 2;
    /// At least this many changes are remembered.
    const FEW: usize = 64;

    pub(super) fn new() -> Self {
        Self { records: HashMap::new(), most: Self::FEW }
    }

    /// Returns whether the record must not be watched now.
    pub(super) fn rests(&self, name: &str, now: Instant) -> bool {
        self.records
            .get(name)
            .is_some_and(|change| Self::is_often(change.in_vain) && change.is_recent(now))
    }

    /// Returns whether so many false changes in a row are too many.
    pub(super) fn is_often(in_vain: u32) -> bool {
        in_vain >= Self::OFTEN
    }

    /// A record was read: returns how many changes in a row were false.
    pub(super) fn in_vain(&mut self, name: &str, seen: Seen, now: Instant) -> u32 {
        let change = self.records.remove(name);
        let change = change.filter(|change| change.seen == seen && change.is_recent(now));
        change.map_or(0, |change| change.in_vain + 1)
    }

    /// The server has reported a change of a record.
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

    /// Reads a record, and gets a report of a change.
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
        // After the pause, the record is like any other.
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
