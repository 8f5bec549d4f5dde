//! A writer that was stopped, and one whose file is gone.

use std::path::Path;
use std::sync::mpsc::channel;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::{ErrorCode, Fence, Key};
use tokio::sync::oneshot;

use super::*;
use crate::SqliteOptions;
use crate::clock::Moment;
use crate::error::Failure;
use crate::operation::Operation;
use crate::settings::Settings;

/// Writes a counter, and then does this before the commit.
struct Stopped(Key, Box<dyn Fn() + Send>);

impl Operation for Stopped {
    type Output = ();

    fn read(&self, _: Store<'_>, _: &Moment) -> Result<Option<()>, Failure> {
        Ok(None)
    }

    fn write(&self, store: Store<'_>, _: &Moment) -> Result<(), Failure> {
        store.set_counter(&self.0, Fence::try_from(7_i64)?)?;
        (self.1)();
        Ok(())
    }
}

/// Runs an operation with this time limit, which does `then`. Returns its answer, and whether its change is in
/// the file.
fn written(
    bound: Duration,
    then: impl Fn(&Path) + Send + 'static,
) -> (Result<(), LockError>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let settings = Settings::new(SqliteOptions::new()).unwrap();
    let is_blocked = Arc::new(AtomicBool::new(false));
    let open = || {
        let deadline = uptime() + Duration::from_secs(60);
        crate::connect::open(&path, &settings, deadline, &is_blocked).unwrap()
    };
    let key = Key::new("key").unwrap();
    let at = path.clone();
    let (reply, mut answer) = oneshot::channel();
    let operation = QueuedOperation {
        operation: Stopped(key.clone(), Box::new(move || then(&at))),
        caller: Caller::new(None),
        deadline: uptime() + bound,
        progress: Arc::new(Progress::default()),
        reply,
        answer: None,
    };
    let (sender, inbox) = channel::<Letter>();
    sender.send(Some(Box::new(operation))).unwrap();
    drop(sender);
    let flag = Arc::clone(&is_blocked);
    let writer = Writer::new(open(), inbox, Weak::new(), flag, Watches::default());
    // Another process kept the file locked, before the last batch.
    is_blocked.store(true, Ordering::Release);
    writer.serve(Vec::new());
    writer.run();
    let is_there = Store(&open().connection).counter(&key).unwrap().is_some();
    (answer.try_recv().unwrap(), is_there)
}

/// A process can be stopped between its write and its commit. A caller that has given up must then get no
/// lock.
#[test]
fn the_deadline_is_looked_at_again_before_the_commit() {
    let (answer, is_there) = written(Duration::from_secs(60), |_| {});
    assert!(answer.is_ok() && is_there, "{answer:?}");
    let bound = Duration::from_millis(500);
    let (answer, is_there) = written(bound, move |_| std::thread::sleep(bound));
    let error = answer.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout);
    assert!(!error.is_outcome_unknown() && !is_there);
}

#[test]
fn who_writes_to_a_file_that_is_gone_is_told_after_the_commit() {
    let gone = |path: &Path| std::fs::remove_file(path.with_extension("db-shm")).unwrap();
    let error = written(Duration::from_secs(60), gone).0.unwrap_err();
    assert!(error.code() == ErrorCode::Internal && error.is_outcome_unknown(), "{error:?}");
}
