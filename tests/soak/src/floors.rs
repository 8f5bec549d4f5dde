//! A run in which little happened proves nothing.

use std::time::Duration;

use syncguard_history::{Counts, Floors};

use crate::stores::Kind;

/// What a run has to have done in this time.
pub(crate) fn floors(kind: Kind, ran: Duration) -> Floors {
    let seconds = ran.as_secs();
    // On a machine of two cores that does something else as well, these are reached many times over.
    Floors {
        answered: 10 * seconds,
        granted: 2 * seconds,
        written: seconds,
        rejected: 1 + seconds / 60,
        faults: kind.catalogue().into_iter().map(|fault| (fault, 1)).collect(),
    }
}

/// What is missing, in words.
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
