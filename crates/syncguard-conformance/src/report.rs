//! What comes of running cases.

use std::fmt;
use std::time::Duration;

use crate::Case;

/// A case that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The backend keeps the rule.
    Passed,
    /// The backend has nothing the rule could be about; says what it lacks.
    NotApplicable(&'static str),
}

/// A broken rule: which one, what was seen, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    case: String,
    clause: &'static str,
    message: String,
    place: Option<String>,
}

impl Failure {
    pub(crate) fn new(case: &Case, message: String, place: Option<String>) -> Self {
        Self { case: case.name.to_owned(), clause: case.clause, message, place }
    }

    /// A failure that is not about a rule.
    pub(crate) fn outside(name: &str, message: String) -> Self {
        Self { case: name.to_owned(), clause: "", message, place: None }
    }

    /// The name of the case.
    #[must_use]
    pub fn case(&self) -> &str {
        &self.case
    }

    /// What was seen.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.message)?;
        if !self.clause.is_empty() {
            write!(f, "\n  the rule: {}", self.clause)?;
        }
        match &self.place {
            Some(place) => write!(f, "\n  seen at {place}"),
            None => Ok(()),
        }
    }
}

/// As `Display`: a test that returns a failure prints its `Debug`.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// What became of every case. `Display` tells the failures and what did not apply.
#[derive(Clone, Debug)]
#[must_use = "a report may hold failures"]
pub struct Report {
    results: Vec<(&'static Case, Result<Verdict, Failure>)>,
    elapsed: Duration,
}

impl Report {
    pub(crate) fn new(
        results: Vec<(&'static Case, Result<Verdict, Failure>)>,
        elapsed: Duration,
    ) -> Self {
        Self { results, elapsed }
    }

    /// Whether no case failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.results.iter().filter_map(|(_, result)| result.as_ref().err())
    }

    /// Every case with its result, in the order of [`cases`](crate::cases).
    pub fn results(&self) -> impl Iterator<Item = (&'static Case, &Result<Verdict, Failure>)> {
        self.results.iter().map(|(case, result)| (*case, result))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failures().count();
        writeln!(f, "{failed} of {} cases failed in {:?}", self.results.len(), self.elapsed)?;
        for failure in self.failures() {
            writeln!(f, "{failure}")?;
        }
        for (case, result) in self.results() {
            if let Ok(Verdict::NotApplicable(why)) = result {
                writeln!(f, "{}: does not apply: {why}", case.name)?;
            }
        }
        Ok(())
    }
}
