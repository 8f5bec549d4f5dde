//! The results of cases.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::Case;

/// A case that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The backend keeps the rule.
    Passed,
    /// The rule does not apply to the backend; says what the backend lacks.
    NotApplicable(&'static str),
}

/// A broken rule, with the observation and its place.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the case.
    pub case: String,
    /// The observation of the case.
    pub message: String,
    /// True if the case could not check its rule in time: it was not done after 3 minutes, or its steps came too late to
    /// prove anything. A backend that hangs is too slow as well, so this is a failure, but the only kind that a busy machine
    /// can cause.
    ///
    /// A broken rule about time is not too slow, such as a lock that was given up and is still held after a minute.
    pub is_too_slow: bool,
    clause: &'static str,
    place: Option<&'static Location<'static>>,
}

impl Failure {
    pub(crate) fn new(case: &Case, message: String) -> Self {
        let clause = case.clause;
        Self { clause, ..Self::outside(case.name, message) }
    }

    /// A case that could not check its rule in time.
    pub(crate) fn too_slow(case: &Case, message: String) -> Self {
        Self { is_too_slow: true, ..Self::new(case, message) }
    }

    /// A failure outside of all rules.
    pub(crate) fn outside(name: &str, message: String) -> Self {
        Self { case: name.to_owned(), clause: "", message, place: None, is_too_slow: false }
    }

    pub(crate) fn seen_at(self, place: &'static Location<'static>) -> Self {
        Self { place: Some(place), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.message)?;
        if !self.clause.is_empty() {
            write!(f, "\n  the rule: {}", self.clause)?;
        }
        match self.place {
            Some(place) => write!(f, "\n  seen at {place}"),
            None => Ok(()),
        }
    }
}

/// The same as `Display`, because a test that returns a failure prints its `Debug`.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// The result of every case.
///
/// `Display` shows the failures, the cases that ran twice, and the cases that did not apply. It names the failure to
/// start with: many rules build on a few, and a backend that breaks one of these fails other cases too.
#[derive(Clone, Debug)]
#[must_use = "a report may hold failures"]
#[non_exhaustive]
pub struct Report {
    /// Every case that ran with its result, in the order of [`cases`](crate::cases).
    pub results: Vec<(&'static Case, Result<Verdict, Failure>)>,
    /// The cases that were too slow at first and ran once more, alone, with their first failure.
    pub repeated: Vec<Failure>,
    elapsed: Duration,
}

impl Report {
    pub(crate) fn new(
        results: Vec<(&'static Case, Result<Verdict, Failure>)>,
        repeated: Vec<Failure>,
        elapsed: Duration,
    ) -> Self {
        Self { results, repeated, elapsed }
    }

    /// Returns true if at least one case ran and none failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        !self.results.is_empty() && self.failures().next().is_none()
    }

    /// The cases that failed, in the order in which to mend them: rules that others build on come first, and cases
    /// that were [too slow](Failure::is_too_slow) come last.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        let failed = || self.results.iter().filter_map(|(_, result)| result.as_ref().err());
        let broken = failed().filter(|failure| !failure.is_too_slow);
        broken.chain(failed().filter(|failure| failure.is_too_slow))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failures().count();
        writeln!(f, "{failed} of {} cases failed in {:?}", self.results.len(), self.elapsed)?;
        if failed > 1 {
            writeln!(f, "start here, the others may follow from it:")?;
        }
        for failure in self.failures() {
            writeln!(f, "{failure}")?;
        }
        for failure in &self.repeated {
            writeln!(f, "ran once more, alone, as it was too slow: {failure}")?;
        }
        for (case, result) in &self.results {
            if let Ok(Verdict::NotApplicable(why)) = result {
                writeln!(f, "{}: does not apply: {why}", case.name)?;
            }
        }
        Ok(())
    }
}
