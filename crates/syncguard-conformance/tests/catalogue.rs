//! The catalogue is complete and consistent.

use std::collections::{HashMap, HashSet};

use syncguard_conformance::{Group, cases};

#[test]
fn names_are_unique_and_can_be_tests() {
    let names: HashSet<_> = cases().iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases().len());
    for name in names {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
    }
}

#[test]
fn every_case_states_its_rule() {
    let clauses: HashSet<_> = cases().iter().map(|case| case.clause).collect();
    assert_eq!(clauses.len(), cases().len(), "two cases state the same rule");
    for case in cases() {
        let is_sentence = case.clause.ends_with('.') && case.clause.split(' ').count() > 4;
        assert!(is_sentence, "{}: {}", case.name, case.clause);
    }
}

#[test]
fn every_group_has_cases() {
    let mut sizes: HashMap<Group, usize> = HashMap::new();
    for case in cases() {
        *sizes.entry(case.group).or_default() += 1;
    }
    assert_eq!(sizes.len(), 17, "{sizes:?}");
    assert!(sizes.values().all(|size| *size >= 4), "{sizes:?}");
    assert!(cases().len() > 100, "the documents say more than a hundred");
}

/// So that `cargo test -- late` runs them.
#[test]
fn what_is_about_late_requests_says_so() {
    let late = cases().iter().filter(|case| case.group == Group::Late);
    for case in late {
        assert!(case.name.contains("late"), "{}", case.name);
    }
}
