//! An operation that somebody waits for.

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

/// An operation as the thread sees it that works on the file.
pub(crate) trait Job: Send {
    /// Whether it is still to be done. If not, that is its answer: `overdue` if its time is up.
    fn is_wanted(&mut self, overdue: fn() -> LockError) -> bool;

    /// Begins to change the file, unless nobody wants that any more: from here on its caller cannot know
    /// the outcome without an answer.
    fn begin(&mut self, overdue: fn() -> LockError) -> bool;

    /// Takes the beginning back: nothing of it is in the file.
    fn unbegin(&mut self);

    /// Looks for an answer without changing anything. `false`: it takes a change.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    fn look(&mut self, store: Store<'_>, now: &Moment) -> Result<bool, rusqlite::Error>;

    /// Changes the file. What it answers is not told before the change is committed.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    fn change(&mut self, store: Store<'_>, now: &Moment) -> Result<(), rusqlite::Error>;

    /// When it may take effect at the latest, as [`uptime`] counts.
    fn deadline(&self) -> Duration;

    /// Whether what it changes counts after a restart of the machine.
    fn outlives_boot(&self) -> bool;

    /// Tells the answer that it has got.
    fn answer(self: Box<Self>);

    /// Tells that it failed.
    fn fail(self: Box<Self>, error: &LockError);
}

/// How far an operation is. Its two sides agree on whether it begins.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    const WAITS: u8 = 0;
    const HAS_BEGUN: u8 = 1;
    const IS_WITHDRAWN: u8 = 2;

    /// Gives the operation up. `false`: too late, it has begun.
    pub(crate) fn withdraw(&self) -> bool {
        self.turn(Self::WAITS, Self::IS_WITHDRAWN)
    }

    fn begin(&self) -> bool {
        self.turn(Self::WAITS, Self::HAS_BEGUN)
    }

    fn unbegin(&self) {
        self.turn(Self::HAS_BEGUN, Self::WAITS);
    }

    fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::IS_WITHDRAWN
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// An operation on its way to the file and back.
pub(crate) struct Pending<O: Operation> {
    pub(crate) operation: O,
    pub(crate) caller: Caller,
    pub(crate) deadline: Duration,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reply: oneshot::Sender<Result<O::Output, LockError>>,
    pub(crate) answer: Option<Result<O::Output, LockError>>,
}

impl<O: Operation> Pending<O> {
    /// `None`: SQLite gave no answer, which is an error of its own.
    fn settle(&mut self, answer: Result<O::Output, Failure>) -> Result<(), rusqlite::Error> {
        self.answer = Some(match answer {
            Ok(output) => Ok(output),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Sqlite(error)) => return Err(error),
        });
        Ok(())
    }
}

impl<O: Operation> Job for Pending<O> {
    fn is_wanted(&mut self, overdue: fn() -> LockError) -> bool {
        let refused = if self.progress.is_withdrawn() || (!O::IS_OWED && self.reply.is_closed()) {
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

    fn unbegin(&mut self) {
        self.answer = None;
        self.progress.unbegin();
    }

    fn look(&mut self, store: Store<'_>, now: &Moment) -> Result<bool, rusqlite::Error> {
        match self.operation.look(store, now) {
            Ok(None) => Ok(false),
            Ok(Some(output)) => self.settle(Ok(output)).map(|()| true),
            Err(failure) => self.settle(Err(failure)).map(|()| true),
        }
    }

    fn change(&mut self, store: Store<'_>, now: &Moment) -> Result<(), rusqlite::Error> {
        let answer = self.operation.change(store, now);
        self.settle(answer)
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn outlives_boot(&self) -> bool {
        O::OUTLIVES_BOOT
    }

    fn answer(self: Box<Self>) {
        if let Some(answer) = self.answer {
            // Nobody waits any more: who wants to know asks the file.
            let _ = self.reply.send(answer);
        }
    }

    fn fail(self: Box<Self>, error: &LockError) {
        let _ = self.reply.send(Err(error.clone()));
    }
}
