//! The state of a store, for health checks.

use std::fmt;
use std::time::Duration;

use super::clock_drift::ClockDrift;
use super::signal_status::SignalStatus;
use crate::value::LockError;

/// How good a store is for locks, as [`LockBackend::health`](crate::LockBackend::health) reports it. `syncguard doctor` prints
/// the same findings, and more that only an administrator can mend.
///
/// ```
/// use syncguard_core::diagnostics::HealthLevel;
/// use syncguard_core::{DynBackend, LockBackend as _};
///
/// /// For a readiness check: false if the store does not answer, or can grant a lock twice.
/// async fn is_ready(store: &DynBackend) -> bool {
///     let health = store.health().await;
///     for finding in &health.findings {
///         println!("{finding}");
///     }
///     health.level() < HealthLevel::Red
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// Whether the store has said if a key is locked, or why it has not.
    pub reachability: Result<(), LockError>,
    /// Whether waiters hear of releases by other processes. If they do not, they poll.
    pub signals: SignalStatus,
    /// How far this machine's clock is ahead of the store's, on a store whose answers tell it. Locks go by the store's time,
    /// and ticks measure their lateness by the machine's clock.
    pub clock: Option<ClockDrift>,
    /// The findings about durability and hazards. A store that is durable by itself says nothing.
    pub findings: Vec<HealthFinding>,
}

impl Health {
    /// For authors of backends: a report without findings.
    #[must_use]
    pub const fn new(reachability: Result<(), LockError>, signals: SignalStatus) -> Self {
        Self { reachability, signals, clock: None, findings: Vec::new() }
    }

    /// The worst level: red for a store that does not answer, else that of the findings.
    #[must_use]
    pub fn level(&self) -> HealthLevel {
        if self.reachability.is_err() {
            return HealthLevel::Red;
        }
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(HealthLevel::Green)
    }

    /// For authors of backends: the difference of the clocks, and the finding about it. `store` is the name for people.
    pub fn set_clock(&mut self, drift: Option<ClockDrift>, store: &str) {
        self.clock = drift;
        self.findings.extend(drift.map(|drift| of_clock(drift, store)));
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthLevel {
    /// It is as it should be.
    Green,
    /// It costs something, or may become bad.
    Yellow,
    /// A lock may be granted twice, a fence may come twice, or no lock can be granted.
    Red,
}

impl HealthLevel {
    /// `"green"`, `"yellow"` or `"red"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }
}

/// A finding of a health check. The texts are for people; `about` never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthFinding {
    /// How bad it is.
    pub level: HealthLevel,
    /// The subject in one word, such as `durability`, `eviction` or `clock`.
    pub about: &'static str,
    /// The finding in words.
    pub says: String,
    /// The command or change that mends it. A word in capitals, such as `USER`, is for the reader to fill in.
    pub mend: Option<String>,
}

impl HealthFinding {
    /// A finding that all is well.
    #[must_use]
    pub fn green(about: &'static str, says: impl Into<String>) -> Self {
        Self { level: HealthLevel::Green, about, says: says.into(), mend: None }
    }

    /// A finding that costs something, or may become bad.
    #[must_use]
    pub fn yellow(about: &'static str, says: impl Into<String>, mend: impl Into<String>) -> Self {
        let mend = Some(mend.into());
        Self { level: HealthLevel::Yellow, about, says: says.into(), mend }
    }

    /// A finding that is bad for locks.
    #[must_use]
    pub fn red(about: &'static str, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { level: HealthLevel::Red, ..Self::yellow(about, says, mend) }
    }
}

/// On one line: `red eviction: a full memory drops held locks`, and the mend.
impl fmt::Display for HealthFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level.as_str(), self.about, self.says)?;
        self.mend.as_ref().map_or(Ok(()), |mend| write!(f, ": {mend}"))
    }
}

/// A tick that is later than this is not run by default.
const LATE: Duration = Duration::from_secs(10);

fn of_clock(drift: ClockDrift, store: &str) -> HealthFinding {
    let millis = drift.millis();
    let side = if millis < 0 { "behind" } else { "ahead of" };
    let says = format!(
        "this machine's clock is {} ms {side} {store}'s, which decides about locks",
        millis.unsigned_abs()
    );
    if drift.at_least() < LATE {
        return HealthFinding::green("clock", says);
    }
    let mend = "set this machine's clock: ticks measure their lateness by it";
    HealthFinding::yellow("clock", says, mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_named() {
        let of = |millis| of_clock(ClockDrift::between(millis, millis), "etcd");
        for (millis, level) in
            [(700, HealthLevel::Green), (9_000, HealthLevel::Green), (11_000, HealthLevel::Yellow)]
        {
            let finding = of(millis);
            assert_eq!(finding.level, level, "{millis}");
            assert!(finding.says.contains(&format!("{millis} ms ahead of etcd's")));
        }
        assert!(of(-700).says.contains("700 ms behind etcd's"));
    }
}
