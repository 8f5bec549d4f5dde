//! The report of a store for health checks.

use syncguard_core::LockError;
use syncguard_core::diagnostics::{ClockDrift, Health, HealthFinding};

use crate::conditions::ConditionReport;

/// Adds the findings. A user may be allowed to lock and not to check, and then there is an error for the report.
pub(crate) fn describe(
    health: &mut Health,
    report: Result<ConditionReport, LockError>,
    clock: Option<ClockDrift>,
) {
    health.findings.push(match report {
        Ok(report) => report.finding(),
        Err(error) => HealthFinding::yellow(
            "conditions",
            format!("the store's conditions cannot be checked: {}", error.message()),
            "let the user read, write and delete objects below the prefix",
        ),
    });
    health.set_clock(clock, "the store");
}
