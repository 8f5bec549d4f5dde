//! What is left when all is quiet.

use super::super::{Entry, History};
use super::{Invariant, Violation};

pub(super) fn nothing_left(history: &History) -> Vec<Violation> {
    let mut looked = false;
    let mut violations = Vec::new();
    for (_, note) in &history.notes {
        let Entry::Quiet { live, tasks, borrowed } = note else { continue };
        looked = true;
        if (*live, *tasks, *borrowed) != (0, 0, 0) {
            let what =
                format!("{live} live records, {tasks} tasks, {borrowed} connections are left");
            violations.push(Violation::new(Invariant::NothingLeft, what, []));
        }
    }
    if !looked {
        violations.push(Violation::new(Invariant::NothingLeft, "nobody looked", []));
    }
    violations
}
