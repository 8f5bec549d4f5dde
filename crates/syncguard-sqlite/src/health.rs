//! The risks of a file, for health checks.

use syncguard_core::diagnostics::{Health, HealthFinding};

use crate::durability::{DurabilityReport, DurabilityRisk};

/// Adds the findings.
pub(crate) fn describe(health: &mut Health, report: &DurabilityReport) {
    health.findings.extend(report.risks.iter().map(|risk| of_risk(*risk)));
    if health.findings.is_empty() {
        let says = "locks and fences survive a crash and a power cut";
        health.findings.push(HealthFinding::green("durability", says));
    }
}

fn of_risk(risk: DurabilityRisk) -> HealthFinding {
    let says = risk.to_string();
    match risk {
        DurabilityRisk::NotSynchronous => {
            HealthFinding::yellow("synchronous", says, "take synchronous=normal out of the URL")
        }
        DurabilityRisk::MemoryFileSystem => HealthFinding::red(
            "file-system",
            format!("{says}: after a restart of the machine fences start anew"),
            "use a path on a disk, such as sqlite:///var/lib/NAME/locks.db",
        ),
        DurabilityRisk::ContainerLayer => HealthFinding::red(
            "file-system",
            format!("{says}: it goes with the container, and no other container sees it"),
            "use a path on a volume",
        ),
        DurabilityRisk::OpenToOthers => {
            HealthFinding::yellow("mode", says, "chmod o= FILE FILE-wal FILE-shm")
        }
        DurabilityRisk::OpenFolder => HealthFinding::red(
            "folder",
            format!("{says}: two programs can then hold one lock, with one fence"),
            "chmod go-w FOLDER, or use a folder of its own",
        ),
        DurabilityRisk::ForeignOwner => HealthFinding::red(
            "owner",
            says,
            "chown FILE FILE-wal FILE-shm FOLDER to the user who runs the programs",
        ),
    }
}
