//! Readers and writers.

use super::Script;
use crate::{Entry, Invariant};

impl Script {
    /// A use from a time on, for a number of milliseconds; zero ends it.
    fn uses(&mut self, at: u64, number: u64, (kind, fence): (&str, u64), left: u64) -> &mut Self {
        let (key, writes) = ("k".to_owned(), kind == "write");
        let until = (at + left) * 1000;
        self.note(at, Entry::Uses { key, number, writes, fence, until });
        self
    }
}

#[test]
fn twelve_nobody_is_beside_a_writer() {
    let mut script = Script::new();
    script.uses(0, 1, ("read", 5), 100).uses(10, 2, ("read", 5), 100).uses(20, 3, ("read", 7), 50);
    // The first one ends, the second one is prolonged, and the third one ends by itself.
    script.uses(60, 1, ("read", 5), 0).uses(90, 2, ("read", 5), 100).uses(149, 2, ("read", 5), 0);
    script.uses(150, 4, ("write", 8), 100).uses(199, 4, ("write", 8), 0);
    script.uses(200, 5, ("read", 8), 100);
    assert_eq!(script.broken(), []);
    for (at, kind) in [(148, "write"), (160, "read"), (160, "write"), (299, "write")] {
        let broken = script.clone().uses(at, 9, (kind, 8 + at), 1).broken();
        assert!(broken.contains(&Invariant::WritersAreAlone), "{kind} at {at}: {broken:?}");
    }
    assert_eq!(script.uses(301, 9, ("write", 9), 1).broken(), []);
}

#[test]
fn twelve_the_fences_are_in_the_order_of_the_uses() {
    let mut script = Script::new();
    script.uses(0, 1, ("write", 5), 10).uses(100, 2, ("read", 7), 10);
    // A read of the same process, a smaller one than that of another process, and a downgraded write.
    script.uses(105, 3, ("read", 7), 1).uses(106, 4, ("read", 5), 1);
    assert_eq!(script.broken(), []);
    for (kind, fence, is_wrong) in [
        ("read", 4, true),
        ("read", 5, false),
        ("write", 6, true),
        ("write", 7, true),
        ("write", 8, false),
    ] {
        let broken = script.clone().uses(200, 9, (kind, fence), 10).broken();
        assert_eq!(broken.contains(&Invariant::WritersAreAlone), is_wrong, "{kind} {fence}");
    }
}
