//! Examines a file of SQLite.

use syncguard::DynBackend;
use syncguard::sqlite::{DurabilityRisk, SqliteBackend};

use super::examination::Examination;
use super::finding::Finding;
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let backend = SqliteBackend::connect(url).await?;
    let mut findings: Vec<Finding> =
        backend.durability_report().risks.iter().map(|risk| finding(*risk)).collect();
    if findings.is_empty() {
        findings
            .push(Finding::green("durability", "locks and fences survive a crash and a power cut"));
    }
    Ok(Examination {
        backend: DynBackend::new(backend),
        findings,
        access: None,
        round_trips: (0, 0),
    })
}

fn finding(risk: DurabilityRisk) -> Finding {
    let says = risk.to_string();
    match risk {
        DurabilityRisk::NotSynchronous => {
            Finding::yellow("synchronous", says, "take synchronous=normal out of the URL")
        }
        DurabilityRisk::MemoryFileSystem => {
            let says = format!("{says}: after a restart of the machine fences start anew");
            Finding::red(
                "file-system",
                says,
                "use a path on a disk, such as sqlite:///var/lib/NAME/locks.db",
            )
        }
        DurabilityRisk::ContainerLayer => {
            let says =
                format!("{says}: it goes with the container, and no other container sees it");
            Finding::red("file-system", says, "use a path on a volume")
        }
        DurabilityRisk::OpenToOthers => {
            Finding::yellow("mode", says, "chmod o= FILE FILE-wal FILE-shm")
        }
        DurabilityRisk::OpenFolder => {
            let says = format!("{says}: two programs can then hold one lock, with one fence");
            Finding::red("folder", says, "chmod go-w FOLDER, or use a folder of its own")
        }
        DurabilityRisk::ForeignOwner => Finding::red(
            "owner",
            says,
            "chown FILE FILE-wal FILE-shm FOLDER to the user who runs the programs",
        ),
        _ => Finding::yellow("durability", says, "see the documentation of syncguard-sqlite"),
    }
}
