//! The report of a server on itself and the tables, for health checks.

use syncguard_core::contract::SignalStatus;
use syncguard_core::diagnostics::{Health, HealthFinding};

use crate::durability::DurabilityReport;
use crate::risk::{DurabilityRisk, printable};
use crate::settings::Settings;

/// Adds the findings.
pub(crate) fn describe(health: &mut Health, report: DurabilityReport, settings: &Settings) {
    let tables = &settings.tables;
    let names = [tables.locks.quoted(), tables.fences.quoted()];
    let findings = &mut health.findings;
    findings.extend(report.risks.iter().map(|risk| of_risk(risk, &names)));
    if findings.is_empty() {
        let says = "locks and fences survive a crash of the server";
        findings.push(HealthFinding::green("durability", says));
    }
    let deaf = match health.signals {
        SignalStatus::Failing => Some("waiters get no signals of releases, and poll instead"),
        SignalStatus::Off if settings.signals.are_on => {
            Some("behind a pooler, waiters get no signals of releases, and poll instead")
        }
        _ => None,
    };
    findings.extend(deaf.map(|says| {
        let mend = "connect past the pooler, or add signals=false to the URL";
        HealthFinding::yellow("signals", says, mend)
    }));
    findings.extend(report.open_schema.map(|schema| {
        let says = format!(
            "other roles may create tables in the schema {}, where ours are looked up",
            printable(&schema)
        );
        let mend =
            format!("REVOKE CREATE ON SCHEMA \"{}\" FROM ROLES", schema.replace('"', "\"\""));
        HealthFinding::yellow("schema", says, mend)
    }));
    findings.extend(report.superfluous_index.map(|index| {
        let says = "no statement reads the index on expires_at_ms, and with it a renewal writes twice as much; the set-up \
            of the TypeScript library makes it";
        HealthFinding::yellow("index", says, format!("DROP INDEX {index}"))
    }));
}

fn of_risk(risk: &DurabilityRisk, [locks, fences]: &[String; 2]) -> HealthFinding {
    let reload = |setting| format!("ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf()");
    let (about, mend) = match risk {
        DurabilityRisk::Standby => ("role", "use the URL of the primary".to_owned()),
        DurabilityRisk::UnloggedLockTable => ("tables", format!("ALTER TABLE {locks} SET LOGGED")),
        DurabilityRisk::UnloggedFenceTable => {
            ("tables", format!("ALTER TABLE {fences} SET LOGGED"))
        }
        DurabilityRisk::FsyncOff => ("fsync", reload("fsync")),
        DurabilityRisk::FullPageWritesOff => ("full_page_writes", reload("full_page_writes")),
        _ => ("tables", risk.remedy()),
    };
    HealthFinding::red(about, risk.to_string(), mend)
}
