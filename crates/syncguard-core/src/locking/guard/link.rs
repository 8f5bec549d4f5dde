//! The line between a guard and its renewer.

use std::mem;

use tokio::sync::{Notify, oneshot};

use super::lease::Lease;
use crate::contract::CleanUp;
use crate::contract::clean_up::Unfinished;
use crate::rt::Mutex;
use crate::{ExtendResult, LockBackend, LockError, ReleaseResult, Ttl};

/// The guard's line to its renewer. It holds one command, because a guard waits for each answer or
/// no longer wants it.
pub(crate) struct Link<B: LockBackend> {
    slot: Mutex<Slot<B>>,
    sent: Notify,
    clean_up: CleanUp,
}

enum Slot<B: LockBackend> {
    Empty,
    Command(Command),
    /// The renewer is gone, and with it whoever would answer. It leaves the lease if it still had it.
    Closed(Option<Box<Lease<B>>>),
}

pub(crate) enum Command {
    Extend(Ttl, oneshot::Sender<Result<ExtendResult, LockError>>),
    Release(oneshot::Sender<Result<ReleaseResult, LockError>>, Unfinished),
    /// After the work of [`lock`](crate::lock()): nobody wants the answer, and the sender only says when it is done.
    Dispose(oneshot::Sender<()>, Unfinished),
    /// The guard was dropped: the queue of the backend gives the lock back.
    Abandon(Unfinished),
}

impl<B: LockBackend> Link<B> {
    pub(crate) fn new(clean_up: CleanUp) -> Self {
        Self { slot: Mutex::new(Slot::Empty), sent: Notify::new(), clean_up }
    }

    /// For a command that gives the lock back, whether its sender waits for that or not.
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
                // Nobody else takes commands, and only the receiver closes the link.
                if matches!(*slot, Slot::Command(_))
                    && let Slot::Command(command) = mem::replace(&mut *slot, Slot::Empty)
                {
                    return command;
                }
            }
            self.sent.notified().await;
        }
    }

    /// Waits for the command that ends the renewer, without taking it.
    pub(super) async fn wants_release(&self) {
        loop {
            if matches!(
                *self.slot.lock(),
                Slot::Command(Command::Release(..) | Command::Dispose(..) | Command::Abandon(_))
            ) {
                return;
            }
            self.sent.notified().await;
        }
    }

    /// The renewer is gone: a guard must not wait for it.
    pub(super) fn close(&self, lease: Option<Box<Lease<B>>>) {
        let before = mem::replace(&mut *self.slot.lock(), Slot::Closed(lease));
        // Not under the lock: whoever waits for the answer hears that there is none.
        drop(before);
    }

    /// What a renewer that is gone has left.
    pub(super) fn take_lease(&self) -> Option<Box<Lease<B>>> {
        match &mut *self.slot.lock() {
            Slot::Closed(lease) => lease.take(),
            Slot::Empty | Slot::Command(_) => None,
        }
    }
}
