//! False changes: the server reported a change of a record that had not changed.

use std::collections::HashMap;
use std::time::Duration;

use syncguard_core::{Fence, Timestamp};
use tokio::time::Instant;

/// The records that the server has reported as changed lately.
pub(super) struct FalseChanges {
    records: HashMap<Box<str>, Change>,
    /// At this number of records, old ones are dropped.
    capacity: usize,
}

/// Identifies the state of a locked record: each acquisition has a new fence, and each extend changes the expiry.
pub(super) type LockState = (Fence, Timestamp);

struct Change {
    at: Instant,
    /// The state before the reported change.
    seen: LockState,
    /// How many reported changes in a row were false before this one.
    false_reports: u32,
}

impl FalseChanges {
    /// A record with false changes is not watched for this time. The server's tracking table is full then
    /// (`tracking-table-max-keys`): for each record that is read again, the server forgets another record and reports
    /// that one as changed.
    const PAUSE: Duration = Duration::from_secs(5);
    /// A single false change means nothing: a report from before the record was read may arrive after the answer.
    const TOO_MANY: u32 = 2;
    /// At least this many changes are remembered.
    const MIN_CAPACITY: usize = 64;

    pub(super) fn new() -> Self {
        Self { records: HashMap::new(), capacity: Self::MIN_CAPACITY }
    }

    /// Returns whether the record must not be watched now.
    pub(super) fn is_paused(&self, name: &str, now: Instant) -> bool {
        self.records
            .get(name)
            .is_some_and(|change| Self::is_too_many(change.false_reports) && change.is_recent(now))
    }

    /// Returns whether so many false changes in a row are too many.
    pub(super) fn is_too_many(false_reports: u32) -> bool {
        false_reports >= Self::TOO_MANY
    }

    /// A record was read: returns how many changes in a row were false.
    pub(super) fn false_reports(&mut self, name: &str, seen: LockState, now: Instant) -> u32 {
        let change = self.records.remove(name);
        let change = change.filter(|change| change.seen == seen && change.is_recent(now));
        change.map_or(0, |change| change.false_reports + 1)
    }

    /// The server has reported a change of a record.
    pub(super) fn note(&mut self, name: &str, seen: LockState, false_reports: u32, at: Instant) {
        if self.records.len() >= self.capacity {
            self.records.retain(|_, change| change.is_recent(at));
            self.capacity = Self::MIN_CAPACITY.max(2 * self.records.len());
        }
        self.records.insert(name.into(), Change { at, seen, false_reports });
    }
}

impl Change {
    fn is_recent(&self, now: Instant) -> bool {
        now < self.at + FalseChanges::PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(fence: u64, expiry: u64) -> LockState {
        let expires_at = Timestamp::from_millis(expiry).expect("a time");
        (Fence::new(fence).expect("a fence"), expires_at)
    }

    /// Reads a record, and gets a report of a change.
    fn read_and_change(changes: &mut FalseChanges, state: LockState, now: Instant) -> bool {
        let false_reports = changes.false_reports("a", state, now);
        changes.note("a", state, false_reports, now);
        changes.is_paused("a", now)
    }

    #[test]
    fn a_record_rests_that_is_often_said_to_have_changed_and_has_not() {
        let start = Instant::now();
        let mut changes = FalseChanges::new();
        let rests = [(); 3].map(|()| read_and_change(&mut changes, seen(1, 5), start));
        assert_eq!((rests, changes.is_paused("b", start)), ([false, false, true], false));
        // After the pause, the record is like any other.
        let later = start + FalseChanges::PAUSE;
        assert!(
            !changes.is_paused("a", later) && changes.false_reports("a", seen(1, 5), later) == 0
        );
    }

    #[test]
    fn a_record_that_changes_does_not_rest() {
        let now = Instant::now();
        let mut changes = FalseChanges::new();
        for (fence, expiry) in [(1, 5), (1, 5), (1, 6), (1, 6), (2, 6), (2, 6), (1, 5), (1, 5)] {
            assert!(!read_and_change(&mut changes, seen(fence, expiry), now));
        }
    }

    #[test]
    fn old_changes_are_thrown_away() {
        let start = Instant::now();
        let mut changes = FalseChanges::new();
        for second in 0..1000_u32 {
            let now = start + Duration::from_secs(second.into());
            changes.note(&format!("k{second}"), seen(1, 5), 0, now);
        }
        assert!(changes.records.len() <= FalseChanges::MIN_CAPACITY, "{}", changes.records.len());
    }
}
