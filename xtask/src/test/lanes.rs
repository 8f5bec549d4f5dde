//! The lanes: which programs run side by side, and with how many threads.
//!
//! Most tests wait for a lease to expire, so a machine of two cores has capacity for several programs. Programs of
//! one lane run one after the other, except the quick ones: two fleets on one kind of server would disturb each
//! other, and two models would only share the processors.

use anyhow::{Result, ensure};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Redis,
    Postgres,
    Firestore,
    Sqlite,
    /// Programs with several stores at once, or with other programs.
    Mixed,
    /// Programs that need only the processors.
    Compute,
    /// Quick programs.
    Quick,
}

impl Lane {
    /// Returns true if its programs run one after the other.
    pub(super) fn is_for_one(self) -> bool {
        self != Self::Quick
    }

    /// The number of tests of one program that run at a time.
    pub(super) fn threads(self) -> usize {
        match self {
            Self::Redis | Self::Postgres | Self::Sqlite | Self::Mixed => 4,
            // The emulator answers one request after the other.
            Self::Firestore | Self::Quick | Self::Compute => 2,
        }
    }
}

/// The doc tests of all crates, which are mostly compiled.
pub(super) const DOC_TESTS: &str = "doc tests";

/// The long programs, in the order in which they start.
const PROGRAMS: &[(&str, Lane)] = &[
    ("tests redis", Lane::Redis),
    ("tests postgres", Lane::Postgres),
    (DOC_TESTS, Lane::Compute),
    ("cli cli", Lane::Mixed),
    ("tests firestore", Lane::Firestore),
    ("soak bounded", Lane::Sqlite),
    ("conformance mutants", Lane::Compute),
    ("tests redaction", Lane::Firestore),
    ("simulation simulation", Lane::Compute),
    ("tests sqlite", Lane::Sqlite),
    ("tests differential", Lane::Mixed),
    ("model firestore", Lane::Compute),
    ("tests fleet", Lane::Sqlite),
    ("model redis", Lane::Compute),
    ("model postgres", Lane::Compute),
    ("model syncguard_model (unit tests)", Lane::Compute),
    ("core syncguard_core (unit tests)", Lane::Compute),
    ("tests examples", Lane::Mixed),
    ("tests quickstart", Lane::Mixed),
    ("test-services postgres", Lane::Postgres),
    ("test-services firestore", Lane::Firestore),
];

pub(super) fn of(name: &str) -> Lane {
    rank(name).map_or(Lane::Quick, |rank| PROGRAMS[rank].1)
}

/// The place of a program in the order; `None` for a quick one.
pub(super) fn rank(name: &str) -> Option<usize> {
    PROGRAMS.iter().position(|(program, _)| *program == name)
}

/// Each program that is named above exists.
pub(super) fn check(names: &[String]) -> Result<()> {
    for (program, _) in PROGRAMS {
        let is_there = *program == DOC_TESTS || names.iter().any(|name| name == program);
        ensure!(is_there, "xtask/src/test/lanes.rs names `{program}`, which cargo has not built");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_noticed() {
        let all: Vec<_> = PROGRAMS.iter().map(|(name, _)| (*name).to_owned()).collect();
        check(&all).unwrap();
        assert!(check(&all[1..]).unwrap_err().to_string().contains("names `tests redis`"));
    }
}
