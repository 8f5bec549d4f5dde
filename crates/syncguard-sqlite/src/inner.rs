//! The state that all operations share, and the way to the writer thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::{ErrorCode, LockError};
use tokio::sync::oneshot;

use crate::clock::uptime;
use crate::connect::open;
use crate::durability::DurabilityReport;
use crate::error::{busy, ended, late};
use crate::fork;
use crate::operation::Operation;
use crate::settings::Settings;
use crate::signals::Watches;
use crate::writer::{Letter, Progress, Queued, QueuedOperation, Writer};

/// The state that the clones of a backend share. The thread ends when this is dropped.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) durability: DurabilityReport,
    pub(crate) watches: Watches,
    outbox: Arc<Sender<Letter>>,
    /// True while another process holds the write lock.
    is_blocked: Arc<AtomicBool>,
}

impl Inner {
    /// Starts the thread, which opens the file.
    pub(crate) async fn open(path: PathBuf, settings: Settings) -> Result<Self, LockError> {
        let timeout = settings.operation_timeout;
        let deadline = uptime().saturating_add(timeout);
        let (outbox, inbox) = mpsc::channel();
        let outbox = Arc::new(outbox);
        let to_itself = Arc::downgrade(&outbox);
        let is_blocked = Arc::new(AtomicBool::new(false));
        let (reply, opened) = oneshot::channel();
        let watches = Watches::default();
        let thread_settings = settings.clone();
        let (thread_is_blocked, thread_watches) = (Arc::clone(&is_blocked), watches.clone());
        let work = move || {
            let opened = open(&path, &thread_settings, deadline, &thread_is_blocked);
            let (store, result) = match opened {
                Ok(store) => {
                    let durability = store.durability.clone();
                    (Some(store), Ok(durability))
                }
                Err(error) => (None, Err(error)),
            };
            if let (Ok(()), Some(store)) = (reply.send(result), store) {
                Writer::new(store, inbox, to_itself, thread_is_blocked, thread_watches).run();
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
            Err(_) if is_blocked.load(Ordering::Acquire) => return Err(busy()),
            Err(_) => return Err(late()),
        };
        Ok(Self { settings, durability, watches, outbox, is_blocked })
    }

    /// Sends an operation to the thread and waits for its answer.
    ///
    /// An operation that has not begun at the deadline is never carried out. An operation that has begun by
    /// then has an unknown outcome.
    pub(crate) async fn run<O: Operation>(
        &self,
        operation: O,
        caller: Caller,
    ) -> Result<O::Output, LockError> {
        fork::check()?;
        let (progress, mut answer) = self.send(operation, caller);
        let timeout = self.settings.operation_timeout;
        match tokio::time::timeout(timeout, &mut answer).await {
            Ok(Ok(result)) => result,
            // The thread has ended, and may have begun the operation before.
            Ok(Err(_)) => Err(ended().with_unknown_outcome()),
            Err(_) => match answer.try_recv() {
                Ok(result) => result,
                Err(_) if !progress.withdraw() => Err(late().with_unknown_outcome()),
                Err(_) if self.is_blocked.load(Ordering::Acquire) => Err(busy()),
                Err(_) => Err(late()),
            },
        }
    }

    /// Sends an operation to the thread and does not wait for its answer.
    pub(crate) fn run_in_background<O: Operation>(&self, operation: O) {
        self.send(operation, Caller::new(None));
    }

    fn send<O: Operation>(
        &self,
        operation: O,
        caller: Caller,
    ) -> (Arc<Progress>, oneshot::Receiver<Result<O::Output, LockError>>) {
        let (reply, answer) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        let queued: Box<dyn Queued> = Box::new(QueuedOperation {
            operation,
            caller,
            deadline: uptime().saturating_add(self.settings.operation_timeout),
            progress: Arc::clone(&progress),
            reply,
            answer: None,
        });
        // If the thread has ended, this drops the operation, which closes the channel of its answer.
        let outbox = Arc::clone(&self.outbox);
        let send = move || drop(outbox.send(Some(queued)));
        match &self.settings.gate {
            None => send(),
            Some(gate) => (gate.0)(Box::new(send)),
        }
        (progress, answer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::SqliteOptions;
    use crate::clock::Moment;
    use crate::error::Failure;
    use crate::store::Store;

    /// Says that it writes, and takes this long. No time is a read.
    struct Takes(Duration, Arc<AtomicBool>);

    impl Operation for Takes {
        type Output = ();

        fn read(&self, _: Store<'_>, _: &Moment) -> Result<Option<()>, Failure> {
            Ok(self.0.is_zero().then_some(()))
        }

        fn write(&self, _: Store<'_>, _: &Moment) -> Result<(), Failure> {
            self.1.store(true, Ordering::Release);
            thread::sleep(self.0);
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_operation_without_an_answer_has_an_unknown_outcome() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::new(SqliteOptions::new()).unwrap();
        let mut inner = Inner::open(folder.path().join("locks.db"), settings).await.unwrap();
        let read = || Takes(Duration::ZERO, Arc::default());
        inner.run(read(), Caller::new(None)).await.unwrap();
        // It has begun when its caller gives up.
        inner.settings.operation_timeout = Duration::from_millis(200);
        let has_begun = Arc::<AtomicBool>::default();
        let slow = Takes(Duration::from_millis(600), Arc::clone(&has_begun));
        let error = inner.run(slow, Caller::new(None)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NetworkTimeout);
        assert_eq!(error.is_outcome_unknown(), has_begun.load(Ordering::Acquire));
        // The thread is gone.
        inner.outbox = mpsc::channel().0.into();
        for _ in 0..2 {
            let error = inner.run(read(), Caller::new(None)).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Internal);
            assert!(error.is_outcome_unknown());
        }
    }
}
