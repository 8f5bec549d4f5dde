//! Flaws of the wire: what they leave out of a commit.

use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{CommitRequest, Write};

use crate::flaw::Flaw;

/// The commit as it arrives.
pub(super) fn flawed(flaw: Option<Flaw>, mut commit: CommitRequest) -> CommitRequest {
    let is_alone = commit.writes.len() == 1;
    for write in &mut commit.writes {
        let is_unchecked = match flaw {
            Some(Flaw::UncheckedCounter) => !is_alone && counts(write),
            Some(Flaw::UncheckedRelease) => matches!(write.operation, Some(Operation::Delete(_))),
            Some(Flaw::UncheckedExtend) => write.update_mask.is_some(),
            _ => false,
        };
        if is_unchecked {
            write.current_document = None;
        }
    }
    if flaw == Some(Flaw::UnmovedCounter) && is_alone {
        commit.writes.retain(|write| !counts(write));
    }
    commit
}

fn counts(write: &Write) -> bool {
    let Some(Operation::Update(document)) = &write.operation else { return false };
    document.name.contains("/fence_counters/")
}
