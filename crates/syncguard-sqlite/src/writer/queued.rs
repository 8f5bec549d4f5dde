//! Operations on their way from the caller to the writer thread and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::Caller;
use tokio::sync::oneshot;

use crate::clock::{Moment, uptime};
use crate::error::Failure;
use crate::operation::Operation;
use crate::store::Store;

/// A queued operation of any type, as the writer thread sees it.
pub(crate) trait Queued: Send {
    /// Returns whether the operation is still wanted. If it is not, the reason becomes its answer:
    /// `overdue` if its deadline has passed.
    fn is_wanted(&mut self, overdue: fn() -> LockError) -> bool;

    /// Begins to change the file, if the operation is still wanted. From here on only an answer tells the
    /// caller the outcome.
    fn begin(&mut self, overdue: fn() -> LockError) -> bool;

    /// Takes the beginning back after a rollback: the file has nothing of this operation.
    fn roll_back(&mut self);

    /// Tries to answer without a change. Returns `false` if the operation needs one.
    ///
    /// # Errors
    ///
    /// The errors of SQLite.
    fn read(&mut self, store: Store<'_>, now: &Moment) -> Result<bool, rusqlite::Error>;

    /// Changes the file. The answer is kept back until the change is committed.
    ///
    /// # Errors
    ///
    /// The errors of SQLite.
    fn write(&mut self, store: Store<'_>, now: &Moment) -> Result<(), rusqlite::Error>;

    /// Returns the latest time at which the operation may take effect, as [`uptime`] counts.
    fn deadline(&self) -> Duration;

    /// Returns whether the change must survive a restart of the machine.
    fn matters_after_reboot(&self) -> bool;

    /// Sends the answer to the caller.
    fn answer(self: Box<Self>);

    /// Sends this error to the caller.
    fn fail(self: Box<Self>, error: &LockError);
}

/// The progress of an operation. Caller and thread agree by it on whether the operation begins.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    const WAITING: u8 = 0;
    const BEGUN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// Withdraws the operation. Returns `false` if it has begun already.
    pub(crate) fn withdraw(&self) -> bool {
        self.change(Self::WAITING, Self::WITHDRAWN)
    }

    fn begin(&self) -> bool {
        self.change(Self::WAITING, Self::BEGUN)
    }

    fn roll_back(&self) {
        self.change(Self::BEGUN, Self::WAITING);
    }

    fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::WITHDRAWN
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// An operation with its caller, its deadline and the channel for the answer.
pub(crate) struct QueuedOperation<O: Operation> {
    pub(crate) operation: O,
    pub(crate) caller: Caller,
    pub(crate) deadline: Duration,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reply: oneshot::Sender<Result<O::Output, LockError>>,
    pub(crate) answer: Option<Result<O::Output, LockError>>,
}

impl<O: Operation> QueuedOperation<O> {
    /// Keeps an output or a refusal as the answer, and returns an error of SQLite.
    fn keep(&mut self, answer: Result<O::Output, Failure>) -> Result<(), rusqlite::Error> {
        self.answer = Some(match answer {
            Ok(output) => Ok(output),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Sqlite(error)) => return Err(error),
        });
        Ok(())
    }
}

impl<O: Operation> Queued for QueuedOperation<O> {
    fn is_wanted(&mut self, overdue: fn() -> LockError) -> bool {
        let caller_is_gone = !O::RUNS_WITHOUT_CALLER && self.reply.is_closed();
        let refused = if self.progress.is_withdrawn() || caller_is_gone {
            Some(LockError::aborted())
        } else if self.deadline <= uptime() {
            Some(overdue())
        } else {
            self.caller.check().err()
        };
        self.answer = refused.map(Err);
        self.answer.is_none()
    }

    fn begin(&mut self, overdue: fn() -> LockError) -> bool {
        self.is_wanted(overdue) && self.progress.begin()
    }

    fn roll_back(&mut self) {
        self.answer = None;
        self.progress.roll_back();
    }

    fn read(&mut self, store: Store<'_>, now: &Moment) -> Result<bool, rusqlite::Error> {
        match self.operation.read(store, now) {
            Ok(None) => Ok(false),
            Ok(Some(output)) => self.keep(Ok(output)).map(|()| true),
            Err(failure) => self.keep(Err(failure)).map(|()| true),
        }
    }

    fn write(&mut self, store: Store<'_>, now: &Moment) -> Result<(), rusqlite::Error> {
        let answer = self.operation.write(store, now);
        self.keep(answer)
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn matters_after_reboot(&self) -> bool {
        O::MATTERS_AFTER_REBOOT
    }

    fn answer(self: Box<Self>) {
        if let Some(answer) = self.answer {
            // This fails if the caller has gone: it can ask the file again.
            let _ = self.reply.send(answer);
        }
    }

    fn fail(self: Box<Self>, error: &LockError) {
        let _ = self.reply.send(Err(error.clone()));
    }
}
