//! The least that a run must have done to prove anything.

use std::time::Duration;

use syncguard_history::{Counts, Floors};

use crate::stores::Kind;

/// The minimum for a run of this length.
pub(crate) fn floors(kind: Kind, ran: Duration) -> Floors {
    let seconds = ran.as_secs();
    // A busy machine of two cores reaches these numbers many times over.
    Floors {
        answered: 10 * seconds,
        granted: 2 * seconds,
        written: seconds,
        rejected: 1 + seconds / 60,
        faults: kind.catalogue().into_iter().map(|fault| (fault, 1)).collect(),
    }
}

/// A description of the missing counts.
pub(crate) fn missing(kind: Kind, ran: Duration, counts: &Counts) -> Vec<String> {
    floors(kind, ran).missing(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_which_nothing_happened_does_not_count() {
        let missing = missing(Kind::Postgres, Duration::from_secs(60), &Counts::default());
        for what in ["answered", "granted", "Killed", "Cut", "ServerRestarted"] {
            assert!(missing.iter().any(|it| it.starts_with(what)), "{what}: {missing:?}");
        }
    }
}
