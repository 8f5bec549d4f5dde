//! Reads libtest's output: the number of tests, and which have ended and how.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// The number of tests that the program announced.
    pub(super) announced: u64,
    /// The number of tests that have ended so far.
    pub(super) ended: u64,
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl Totals {
    /// Adds the result in a line of output. Returns the name of a failed test.
    pub(super) fn add_line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if let Some(rest) = line.strip_prefix("running ") {
            let count = rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"));
            self.announced += count.and_then(|count| count.parse().ok()).unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            self.add_result(rest);
        } else if let Some((name, result)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            self.ended += 1;
            return result.starts_with("FAILED").then_some(name);
        }
        None
    }

    /// `ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s`
    fn add_result(&mut self, result: &str) {
        let Some((_, counts)) = result.split_once(". ") else { return };
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
    fn adds_what_libtest_says_and_nothing_else() {
        let output = "\
running 2 tests
test a ... ok
test 5 passed; 5 failed ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s

running 1 test
test a::b ... FAILED
test result: FAILED. 30 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
all doctests ran in 0.18s; merged doctests compilation took 0.17s";
        let mut totals = Totals::default();
        let failed: Vec<_> = output.lines().filter_map(|line| totals.add_line(line)).collect();
        assert_eq!(totals, Totals { announced: 3, ended: 3, passed: 32, failed: 4 });
        assert_eq!(failed, ["a::b"]);
    }
}
