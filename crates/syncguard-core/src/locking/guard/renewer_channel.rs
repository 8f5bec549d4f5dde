//! The channel from a guard to its renewer.

use std::mem;

use tokio::sync::{Notify, oneshot};

use super::lease::Lease;
use super::parting::Parting;
use super::release::ReleaseOutcome;
use crate::backend::LockBackend;
use crate::client::ReleaseSource;
use crate::client::clean_up::{CleanUp, Unfinished};
use crate::contract::response::ExtendResult;
use crate::rt::Mutex;
use crate::value::{LockError, Ttl};

/// The channel from a guard to its renewer. It holds one command, because a guard waits for each answer
/// before the next command, or has given up waiting.
pub(crate) struct RenewerChannel<B: LockBackend> {
    slot: Mutex<Slot<B>>,
    sent: Notify,
    clean_up: CleanUp,
}

enum Slot<B: LockBackend> {
    Empty,
    Command(Command),
    /// The renewer has ended and answers no command. It leaves the lease, unless it had released it.
    Closed(Option<Box<Lease<B>>>),
}

pub(crate) enum Command {
    Extend(Ttl, oneshot::Sender<Result<ExtendResult, LockError>>),
    Release(Parting, ReleaseSource, oneshot::Sender<ReleaseOutcome>, Unfinished),
    /// The guard was dropped: the clean-up of the backend releases the lock.
    Abandon(Unfinished),
}

impl<B: LockBackend> RenewerChannel<B> {
    pub(crate) fn new(clean_up: CleanUp) -> Self {
        Self { slot: Mutex::new(Slot::Empty), sent: Notify::new(), clean_up }
    }

    /// Counts a command that releases the lock as unfinished.
    pub(super) fn unfinished(&self) -> Unfinished {
        self.clean_up.unfinished()
    }

    pub(crate) fn send(&self, command: Command) {
        let mut slot = self.slot.lock();
        if !matches!(*slot, Slot::Closed(_)) {
            *slot = Slot::Command(command);
        }
        drop(slot);
        self.sent.notify_one();
    }

    pub(super) async fn receive(&self) -> Command {
        loop {
            {
                let mut slot = self.slot.lock();
                // Only the renewer takes commands, and only the renewer closes the channel.
                if matches!(*slot, Slot::Command(_))
                    && let Slot::Command(command) = mem::replace(&mut *slot, Slot::Empty)
                {
                    return command;
                }
            }
            self.sent.notified().await;
        }
    }

    /// Waits for a command that ends the renewer, without taking it.
    pub(super) async fn release_requested(&self) {
        loop {
            if matches!(
                *self.slot.lock(),
                Slot::Command(Command::Release(..) | Command::Abandon(_))
            ) {
                return;
            }
            self.sent.notified().await;
        }
    }

    /// The renewer has ended: a guard must not wait for it.
    pub(super) fn close(&self, lease: Option<Box<Lease<B>>>) {
        let before = mem::replace(&mut *self.slot.lock(), Slot::Closed(lease));
        // Dropped after the mutex is free: the drop wakes a guard that waits for the answer.
        drop(before);
    }

    /// The lease that an ended renewer has left.
    pub(super) fn take_lease(&self) -> Option<Box<Lease<B>>> {
        match &mut *self.slot.lock() {
            Slot::Closed(lease) => lease.take(),
            Slot::Empty | Slot::Command(_) => None,
        }
    }
}
