//! The risks that the file is lost, or changed by other users.

use std::fmt;

use syncguard_core::LockError;

use crate::config::Synchronous;
use crate::file::LockFile;
use crate::file_system::Kind;
use crate::other_users;

/// The risks found that can make the file forget a granted lock or a fence. After that, two holders may
/// have one lock, and a fence may be handed out twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DurabilityReport {
    /// The risks; empty is good.
    pub(crate) risks: Vec<DurabilityRisk>,
}

/// A risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DurabilityRisk {
    /// `Synchronous::Normal`: a power cut can take the last fences back. A crash of programs cannot.
    NotSynchronous,
    /// The file is in memory (tmpfs): a restart of the machine deletes it, and fences start again.
    MemoryFileSystem,
    /// The file is in a container's own layer: it is deleted with the container, and other containers do
    /// not see it. Put the file on a volume.
    ContainerLayer,
    /// Every user of the machine may read or change the file, and so take locks away from their holders.
    OpenToOthers,
    /// Other users may write in the folder of the file, or in a folder above it that is not sticky: they can put
    /// another file in its place, in which all keys are free and fences start again.
    OpenFolder,
    /// The file or its folder belongs to another user, who is not root.
    ForeignOwner,
}

impl fmt::Display for DurabilityRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSynchronous => "synchronous is normal",
            Self::MemoryFileSystem => "the file is in memory",
            Self::ContainerLayer => "the file is in a container's own layer",
            Self::OpenToOthers => "every user may read or change the file",
            Self::OpenFolder => "other users may replace the file, because they may write in its folder or in one above",
            Self::ForeignOwner => "the file or its folder belongs to another user",
        })
    }
}

impl DurabilityReport {
    pub(crate) fn of(file: &LockFile, synchronous: Synchronous) -> Self {
        let normal = (synchronous == Synchronous::Normal).then_some(DurabilityRisk::NotSynchronous);
        let users = other_users::rights(file);
        let of_users = [
            users.open_file.then_some(DurabilityRisk::OpenToOthers),
            users.open_folder.then_some(DurabilityRisk::OpenFolder),
            users.foreign_owner.then_some(DurabilityRisk::ForeignOwner),
        ];
        let risks = normal.into_iter().chain(file_system_risk(file.kind));
        Self { risks: risks.chain(of_users.into_iter().flatten()).collect() }
    }

    /// Returns an error in strict mode; otherwise logs a warning.
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

fn file_system_risk(kind: Kind) -> Option<DurabilityRisk> {
    match kind {
        Kind::Memory => Some(DurabilityRisk::MemoryFileSystem),
        Kind::Overlay => Some(DurabilityRisk::ContainerLayer),
        Kind::Other => None,
    }
}
