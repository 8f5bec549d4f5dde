//! Which programs run side by side, and with how many threads.
//!
//! Most tests wait for a lease to expire, so a machine of two cores has room for several programs. Programs of one
//! lane run one after the other: two fleets on one kind of server would get in each other's way, and two models
//! would only share the processors.

use anyhow::{Result, ensure};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Redis,
    Postgres,
    Firestore,
    Sqlite,
    /// Several stores at once, or other programs.
    Mixed,
    /// Nothing but the processors.
    Compute,
    /// All that is soon over.
    Quick,
}

impl Lane {
    pub(super) const ALL: [Self; 7] = [
        Self::Redis,
        Self::Postgres,
        Self::Firestore,
        Self::Sqlite,
        Self::Mixed,
        Self::Compute,
        Self::Quick,
    ];

    /// How many tests of one program run at a time.
    pub(super) fn threads(self) -> usize {
        match self {
            Self::Redis | Self::Postgres | Self::Sqlite => 8,
            Self::Mixed | Self::Quick => 4,
            // The emulator answers one request after the other.
            Self::Firestore => 2,
            Self::Compute => 1,
        }
    }
}

/// The doc tests of all crates, which are mostly compiled.
pub(super) const DOC_TESTS: &str = "doc tests";

/// The programs that are not soon over, those that take longest first.
const PROGRAMS: &[(Lane, &[&str])] = &[
    (Lane::Redis, &["tests redis", "tests redaction"]),
    (Lane::Postgres, &["tests postgres", "test-services postgres"]),
    (Lane::Firestore, &["tests firestore", "test-services firestore"]),
    (Lane::Sqlite, &["tests sqlite", "tests fleet", "soak bounded"]),
    (Lane::Mixed, &["cli cli", "tests differential", "tests examples", "tests quickstart"]),
    (
        Lane::Compute,
        &[
            DOC_TESTS,
            "simulation simulation",
            "model firestore",
            "model postgres",
            "model syncguard_model (unit tests)",
            "core syncguard_core (unit tests)",
            "conformance mutants",
        ],
    ),
];

pub(super) fn of(name: &str) -> Lane {
    let lane = PROGRAMS.iter().find(|(_, programs)| programs.contains(&name));
    lane.map_or(Lane::Quick, |(lane, _)| *lane)
}

/// The place of a program in the order of its lane.
pub(super) fn rank(name: &str) -> usize {
    let all = PROGRAMS.iter().flat_map(|(_, programs)| *programs);
    let mut all = all.enumerate();
    all.find(|(_, program)| **program == name).map_or(usize::MAX, |(rank, _)| rank)
}

/// Each program that is named above is there.
pub(super) fn check(names: &[String]) -> Result<()> {
    for program in PROGRAMS.iter().flat_map(|(_, programs)| *programs) {
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
        let all: Vec<_> = PROGRAMS.iter().flat_map(|(_, names)| *names).collect();
        let all: Vec<_> = all.into_iter().map(|name| (*name).to_owned()).collect();
        check(&all).unwrap();
        assert!(check(&all[1..]).unwrap_err().to_string().contains("names `tests redis`"));
    }

    #[test]
    fn long_programs_come_first() {
        assert!(rank("cli cli") < rank("tests fleet"));
        assert!(rank("tests fleet") < rank("core waiting"));
        assert_eq!(of("core waiting"), Lane::Quick);
    }
}
