//! Whether the file can be lost, or changed by others.

use std::fmt;

use syncguard_core::LockError;

use crate::config::Synchronous;
use crate::file::LockFile;

/// What was found that can make the file forget a lock it has granted, or a fence: after that, two may hold
/// one lock, and a fence may come twice.
///
/// Opening logs each finding as a warning;
/// [`with_strict_durability`](crate::SqliteOptions::with_strict_durability) refuses to work instead.
///
/// What nobody can find out: a disk that says that data is written while it is not, and a file that
/// somebody puts back from a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurabilityReport {
    /// The findings; empty is good.
    pub risks: Vec<DurabilityRisk>,
}

/// One finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DurabilityRisk {
    /// [`Synchronous::Normal`]: a power cut can take the last fences back. A crash of programs cannot.
    NotSynchronous,
    /// The file is in memory (tmpfs): after a restart of the machine it is gone, and fences start anew.
    MemoryFileSystem,
    /// The file is in a container's own layer: it goes with the container, and other containers do not see
    /// it. Put it on a volume.
    ContainerLayer,
    /// Every user of the machine may read or change the file: locks can be taken away from their holders.
    OpenToOthers,
}

impl fmt::Display for DurabilityRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSynchronous => "synchronous is normal",
            Self::MemoryFileSystem => "the file is in memory",
            Self::ContainerLayer => "the file is in a container's own layer",
            Self::OpenToOthers => "every user may read or change the file",
        })
    }
}

impl DurabilityReport {
    pub(crate) fn of(file: &LockFile, synchronous: Synchronous) -> Self {
        let normal = (synchronous == Synchronous::Normal).then_some(DurabilityRisk::NotSynchronous);
        let open = is_open_to_others(file).then_some(DurabilityRisk::OpenToOthers);
        Self { risks: normal.into_iter().chain(file.kind.risk()).chain(open).collect() }
    }

    /// An error in strict mode, else warnings in the log.
    pub(crate) fn enforce(&self, strict: bool) -> Result<(), LockError> {
        if self.risks.is_empty() {
            return Ok(());
        }
        let risks: Vec<String> = self.risks.iter().map(ToString::to_string).collect();
        let risks = risks.join(", ");
        if strict {
            return Err(LockError::invalid_argument(format!(
                "strict durability refuses this file: {risks}"
            )));
        }
        tracing::warn!(backend = "sqlite", risks, "the file can forget a lock it has granted");
        Ok(())
    }
}

#[cfg(unix)]
fn is_open_to_others(file: &LockFile) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata.permissions().mode() & 0o007 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_: &LockFile) -> bool {
    false
}
