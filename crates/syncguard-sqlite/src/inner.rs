//! What all operations share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::{ErrorCode, LockError};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::awake::Awake;
use crate::clock::uptime;
use crate::durability::DurabilityReport;
use crate::error::{busy, ended, late};
use crate::fork;
use crate::job::{Job, Pending, Progress};
use crate::open::open;
use crate::operation::Operation;
use crate::settings::Settings;
use crate::watches::Watches;
use crate::writer::Writer;

/// What the clones of a backend share. The thread ends when it is dropped.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) durability: DurabilityReport,
    pub(crate) watches: Watches,
    outbox: Sender<Box<dyn Job>>,
    is_kept_out: Arc<AtomicBool>,
    awake: Awake,
}

impl Inner {
    /// Starts the thread, which opens the file.
    pub(crate) async fn open(path: PathBuf, settings: Settings) -> Result<Self, LockError> {
        let timeout = settings.operation_timeout;
        let deadline = uptime().saturating_add(timeout);
        let (outbox, inbox) = mpsc::channel();
        let is_kept_out = Arc::new(AtomicBool::new(false));
        let (reply, opened) = oneshot::channel();
        let (of_thread, kept_out) = (settings.clone(), Arc::clone(&is_kept_out));
        let watches = Watches::default();
        let watched = watches.clone();
        let awake = Awake::new();
        let awake_too = awake.clone();
        let work = move || {
            let opened = open(&path, &of_thread, deadline, &kept_out);
            let (store, result) = match opened {
                Ok(store) => {
                    let durability = store.durability.clone();
                    (Some(store), Ok(durability))
                }
                Err(error) => (None, Err(error)),
            };
            if let (Ok(()), Some(store)) = (reply.send(result), store) {
                Writer::new(store, inbox, kept_out, watched, awake_too).run();
            }
        };
        thread::Builder::new().name("syncguard-sqlite".to_owned()).spawn(work).map_err(
            |error| {
                let unavailable = ErrorCode::ServiceUnavailable;
                LockError::new(unavailable, "no thread could be started").with_source(&error)
            },
        )?;
        let durability = match tokio::time::timeout(timeout, opened).await {
            Ok(result) => result.map_err(|_| ended())??,
            Err(_) if is_kept_out.load(Ordering::Acquire) => return Err(busy()),
            Err(_) => return Err(late()),
        };
        Ok(Self { settings, durability, watches, outbox, is_kept_out, awake })
    }

    /// Has an operation done by the thread.
    ///
    /// Whatever was not begun when the time is up is never done; what was begun has an unknown outcome.
    pub(crate) async fn run<O: Operation>(
        &self,
        operation: O,
        caller: Caller,
    ) -> Result<O::Output, LockError> {
        fork::check()?;
        let waits = self.awake.waits();
        let (progress, mut answer) = self.send(operation, caller);
        while waits.stays_awake() {
            match answer.try_recv() {
                Ok(result) => return result,
                Err(TryRecvError::Empty) => tokio::task::yield_now().await,
                Err(TryRecvError::Closed) => return Err(ended().with_unknown_outcome()),
            }
        }
        let timeout = self.settings.operation_timeout;
        match tokio::time::timeout(timeout, &mut answer).await {
            Ok(Ok(result)) => result,
            // The thread is gone, and what it had begun is not known.
            Ok(Err(_)) => Err(ended().with_unknown_outcome()),
            Err(_) => match answer.try_recv() {
                Ok(result) => result,
                Err(_) if !progress.withdraw() => Err(late().with_unknown_outcome()),
                Err(_) if self.is_kept_out.load(Ordering::Acquire) => Err(busy()),
                Err(_) => Err(late()),
            },
        }
    }

    /// Has an operation done by the thread that nobody waits for.
    pub(crate) fn leave<O: Operation>(&self, operation: O) {
        self.send(operation, Caller::new(None));
    }

    fn send<O: Operation>(
        &self,
        operation: O,
        caller: Caller,
    ) -> (Arc<Progress>, oneshot::Receiver<Result<O::Output, LockError>>) {
        let (reply, answer) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        let job: Box<dyn Job> = Box::new(Pending {
            operation,
            caller,
            deadline: uptime().saturating_add(self.settings.operation_timeout),
            progress: Arc::clone(&progress),
            reply,
            answer: None,
        });
        // If the thread is gone, so is the job, and whoever waits for it is told.
        #[cfg(not(feature = "test-util"))]
        let _ = self.outbox.send(job);
        #[cfg(feature = "test-util")]
        {
            let outbox = self.outbox.clone();
            self.settings.gate.pass(move || drop(outbox.send(job)));
        }
        (progress, answer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syncguard_core::Key;

    use super::*;
    use crate::SqliteOptions;
    use crate::listing::ReadCounter;

    #[tokio::test]
    async fn a_thread_that_is_gone_is_an_error_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::new(SqliteOptions::new()).unwrap();
        let mut inner = Inner::open(folder.path().join("locks.db"), settings).await.unwrap();
        inner.outbox = mpsc::channel().0;
        for is_quick in [false, true] {
            if is_quick {
                // So that a caller stays awake for its answer, where there is more than one processor.
                (0..9).for_each(|_| inner.awake.took(Duration::ZERO));
            }
            let question = ReadCounter(Key::new("k").unwrap());
            let error = inner.run(question, Caller::new(None)).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Internal);
            assert!(error.is_outcome_unknown());
        }
    }
}
