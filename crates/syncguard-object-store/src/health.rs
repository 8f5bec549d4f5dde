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
    let about = "conditions";
    health.findings.push(match report {
        Err(error) => {
            let says = format!("the store's conditions cannot be checked: {}", error.message());
            HealthFinding::yellow(
                about,
                says,
                "let the user read, write and delete objects below the prefix",
            )
        }
        Ok(report) if report.faults.is_empty() => HealthFinding::green(
            about,
            "the store heeds the conditions of writes, as far as a few writes can show",
        ),
        Ok(report) => {
            let says = format!("two callers would get one lock: {}", report.faults.join("; "));
            HealthFinding::red(
                about,
                says,
                "use a store or a release of it that heeds If-Match and If-None-Match",
            )
        }
    });
    health.set_clock(clock, "the store");
}
