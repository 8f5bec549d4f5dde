//! Adding up libtest's result lines.

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl Totals {
    /// Adds what a line of output says, if it is a result line.
    pub(super) fn add_line(&mut self, line: &str) {
        // test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_result_lines_and_nothing_else() {
        let output = "\
running 2 tests
test a ... ok
test 5 passed; 5 failed ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s

test result: FAILED. 30 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
all doctests ran in 0.18s; merged doctests compilation took 0.17s";
        let mut totals = Totals::default();
        output.lines().for_each(|line| totals.add_line(line));
        assert_eq!(totals, Totals { passed: 32, failed: 4 });
    }
}
