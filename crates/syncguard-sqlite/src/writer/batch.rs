//! Batches of operations that are carried out together.

use syncguard_core::LockError;

use super::queued::Queued;

pub(super) type Batch = Vec<Box<dyn Queued>>;

/// Splits a batch into the operations that `choice` accepts and the others.
pub(super) fn partition(
    batch: Batch,
    mut choice: impl FnMut(&mut dyn Queued) -> bool,
) -> (Batch, Batch) {
    let (mut chosen, mut others) = (Vec::with_capacity(batch.len()), Vec::new());
    for mut operation in batch {
        if choice(&mut *operation) {
            chosen.push(operation);
        } else {
            others.push(operation);
        }
    }
    (chosen, others)
}

/// Marks all operations as not begun, after a rollback.
pub(super) fn roll_back(mut batch: Batch) -> Batch {
    for operation in &mut batch {
        operation.roll_back();
    }
    batch
}

/// Sends each operation's answer to its caller.
pub(super) fn answer(batch: Batch) {
    for operation in batch {
        operation.answer();
    }
}

/// Sends this error to all callers.
pub(super) fn fail(batch: Batch, error: &LockError) {
    for operation in batch {
        operation.fail(error);
    }
}
