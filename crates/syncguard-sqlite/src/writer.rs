//! The thread that works on the file, and the only one of its backend that does.
//!
//! SQLite blocks its thread, and lets one write at a time. So all operations of a backend come here, and
//! those that wait are written in one transaction: one wait for the disk for all of them. Each is decided
//! by itself, in its order, and told its own answer, after the commit.
//!
//! While another process writes, this one tries again and again, and answers meanwhile what takes no
//! change: contention above all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use syncguard_core::LockError;

use crate::awake::Awake;
use crate::clock::{Clock, uptime};
use crate::error::{busy, classify, is_busy, late};
use crate::file::OpenFiles;
use crate::job::Job;
use crate::jobs::{Jobs, answer, fail, partition, unbegun};
use crate::level::Level;
use crate::open::OpenStore;
use crate::pauses::Pauses;
use crate::store::Store;
use crate::watches::Watches;

/// How many operations are written in one transaction at the most: others wait for its end.
const BATCH: usize = 256;

/// The log is emptied into the file by SQLite when it has reached 4 MB and nobody reads in it. Beyond this
/// many bytes it is not waited for that.
const LONGEST_LOG: u64 = 16 << 20;

/// Operations that come within so long after each other follow each other closely.
const CLOSELY: Duration = Duration::from_micros(200);

/// How often the thread looks whether another process has changed the file, while somebody waits: two
/// words of shared memory.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(crate) struct Writer {
    connection: Connection,
    files: OpenFiles,
    clock: Clock,
    inbox: Receiver<Box<dyn Job>>,
    /// Whether another process keeps this one from writing.
    is_kept_out: Arc<AtomicBool>,
    watches: Watches,
    awake: Awake,
    level: Level,
}

/// What became of a transaction.
enum Written {
    /// Everything is answered.
    All,
    /// These are not: another process writes, or some were late and the others have to go again.
    NotYet { jobs: Jobs, is_kept_out: bool },
}

impl Writer {
    pub(crate) fn new(
        store: OpenStore,
        inbox: Receiver<Box<dyn Job>>,
        is_kept_out: Arc<AtomicBool>,
        watches: Watches,
        awake: Awake,
    ) -> Self {
        let OpenStore { connection, files, clock, synchronous, .. } = store;
        let level = Level::new(synchronous, clock.knows_boot());
        Self { connection, files, clock, inbox, is_kept_out, watches, awake, level }
    }

    /// Works until nobody can ask for anything any more.
    pub(crate) fn run(self) {
        let mut version = None;
        let (mut idle_since, mut follow_closely) = (uptime(), false);
        loop {
            let first = self.next(follow_closely);
            let came = uptime();
            follow_closely = came.saturating_sub(idle_since) < CLOSELY && self.awake.may();
            match first {
                Ok(first) => {
                    let mut jobs = vec![first];
                    self.collect(&mut jobs);
                    self.serve(jobs);
                    idle_since = uptime();
                    self.awake.took(idle_since.saturating_sub(came));
                    // What this one writes changes no version for it.
                    version = None;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            version = self.tell_watchers(version);
        }
    }

    /// Waits for an operation; awake for a moment if they follow each other closely.
    fn next(&self, follow_closely: bool) -> Result<Box<dyn Job>, RecvTimeoutError> {
        let until = uptime().saturating_add(Awake::FOR_QUESTION);
        while follow_closely && uptime() < until {
            match self.inbox.try_recv() {
                Ok(first) => return Ok(first),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                // To whoever needs the processor.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        }
        if self.watches.are_heard() {
            self.inbox.recv_timeout(BETWEEN_LOOKS)
        } else {
            self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
    }

    /// Ends the watches of locks that are over, if the file has changed since this version. Gives the
    /// version that it has now.
    fn tell_watchers(&self, before: Option<i64>) -> Option<i64> {
        if !self.watches.are_heard() {
            return None;
        }
        let version = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0)).ok();
        if version.is_some() && version == before {
            return version;
        }
        let store = Store(&self.connection);
        let now = self.files.check().and_then(|_| self.clock.now());
        // Whatever cannot be read is heard of by asking.
        self.watches.end_if(|key| {
            !now.as_ref().is_ok_and(|now| {
                store.by_key(key).is_ok_and(|held| held.is_some_and(|held| held.is_live(now)))
            })
        });
        version
    }

    /// Adds what waits.
    fn collect(&self, jobs: &mut Jobs) {
        let room = BATCH.saturating_sub(jobs.len());
        jobs.extend(self.inbox.try_iter().take(room));
    }

    fn serve(&self, jobs: Jobs) {
        let mut pauses = Pauses::default();
        let mut waiting = self.look(jobs);
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(BATCH));
            let written = self.write(waiting);
            waiting = rest;
            let Written::NotYet { mut jobs, is_kept_out } = written else { continue };
            // They came first.
            jobs.append(&mut waiting);
            waiting = jobs;
            if is_kept_out {
                self.is_kept_out.store(true, Ordering::Release);
                self.awake.has_seen_others();
                let more = self.wait(pauses.next());
                waiting.extend(self.look(more));
                waiting = self.wanted(waiting);
            }
        }
        self.is_kept_out.store(false, Ordering::Release);
    }

    /// Those that somebody still wants; the others are answered.
    fn wanted(&self, jobs: Jobs) -> Jobs {
        let (wanted, unwanted) = partition(jobs, |job| job.is_wanted(self.overdue()));
        answer(unwanted);
        wanted
    }

    /// What it is due to that an operation could not begin in time.
    fn overdue(&self) -> fn() -> LockError {
        if self.is_kept_out.load(Ordering::Acquire) { busy } else { late }
    }

    /// Waits for others to be done, or for operations that can be answered meanwhile.
    fn wait(&self, pause: Duration) -> Jobs {
        let mut jobs = Vec::new();
        match self.inbox.recv_timeout(pause) {
            Ok(first) => {
                jobs.push(first);
                self.collect(&mut jobs);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
        }
        jobs
    }

    /// Answers what takes no change, and gives the others back.
    fn look(&self, jobs: Jobs) -> Jobs {
        let jobs = self.wanted(jobs);
        if jobs.is_empty() {
            return jobs;
        }
        // The time before the file: what is expired then and still there was not extended in between.
        let now = match self.files.check().and_then(|_| self.clock.now()) {
            Ok(now) => now,
            Err(error) => {
                fail(jobs, &error);
                return Vec::new();
            }
        };
        // One look at the file serves all. If it cannot be had, each looks by itself.
        let _snapshot = (jobs.len() > 1).then(|| self.connection.unchecked_transaction());
        let store = Store(&self.connection);
        let look = |mut job: Box<dyn Job>| match job.look(store, &now) {
            Ok(true) => {
                job.answer();
                None
            }
            Ok(false) => Some(job),
            Err(error) if is_busy(&error) => Some(job),
            Err(error) => {
                job.fail(&classify(&error));
                None
            }
        };
        jobs.into_iter().filter_map(look).collect()
    }

    /// Carries operations out in one transaction.
    fn write(&self, jobs: Jobs) -> Written {
        if !self.connection.is_autocommit() {
            // A rollback has failed before; without it, nothing can begin.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let outlives_boot = jobs.iter().any(|job| job.outlives_boot());
        let began = self.level.set(&self.connection, outlives_boot).and_then(|()| {
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
        });
        let transaction = match began {
            Ok(transaction) => transaction,
            Err(error) if is_busy(&error) => {
                return Written::NotYet { jobs, is_kept_out: true };
            }
            Err(error) => {
                fail(jobs, &classify(&error));
                return Written::All;
            }
        };
        let (mut begun, unwanted) = partition(jobs, |job| job.begin(self.overdue()));
        answer(unwanted);
        match write_all(&transaction, &self.clock, &mut begun) {
            Ok(()) => {}
            Err(Unwritten::Told(error)) => {
                drop(transaction);
                fail(begun, &error);
                return Written::All;
            }
            Err(Unwritten::Late) => {
                drop(transaction);
                return Written::NotYet { jobs: unbegun(begun), is_kept_out: false };
            }
            Err(Unwritten::Sqlite(error)) => {
                drop(transaction);
                return self.write_apart(begun, &error);
            }
        }
        match transaction.commit() {
            Ok(()) => self.tell(begun),
            // Nobody sees it now; what is on the disk may come back when all programs have crashed.
            Err(error) => fail(begun, &classify(&error).with_unknown_outcome()),
        }
        Written::All
    }

    /// One of them has failed, so nothing was written: each has a transaction of its own now.
    fn write_apart(&self, jobs: Jobs, error: &rusqlite::Error) -> Written {
        let mut jobs = unbegun(jobs);
        if jobs.len() <= 1 {
            fail(jobs, &classify(error));
            return Written::All;
        }
        let mut left = Vec::new();
        let mut kept_out = false;
        for job in jobs.drain(..) {
            if let Written::NotYet { jobs, is_kept_out } = self.write(vec![job]) {
                left.extend(jobs);
                kept_out |= is_kept_out;
            }
        }
        if left.is_empty() {
            return Written::All;
        }
        Written::NotYet { jobs: left, is_kept_out: kept_out }
    }

    /// Tells the answers, if the file is still there that they were written to.
    fn tell(&self, jobs: Jobs) {
        match self.files.check() {
            Ok(log_size) => {
                answer(jobs);
                if log_size > LONGEST_LOG {
                    self.shorten_log();
                }
            }
            Err(error) => fail(jobs, &error.with_unknown_outcome()),
        }
    }

    /// Whether it can be done now is seen next time.
    fn shorten_log(&self) {
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
    }
}

/// Why a transaction is not committed.
enum Unwritten {
    Told(LockError),
    /// Some of it may not take effect any more.
    Late,
    Sqlite(rusqlite::Error),
}

fn write_all(
    transaction: &Transaction<'_>,
    clock: &Clock,
    jobs: &mut Jobs,
) -> Result<(), Unwritten> {
    // Nobody else writes from here on, so this time is after all they did.
    let now = clock.now().map_err(Unwritten::Told)?;
    for job in jobs.iter_mut() {
        job.change(Store(transaction), &now).map_err(Unwritten::Sqlite)?;
    }
    // The process may have been stopped meanwhile.
    let time = uptime();
    if jobs.iter().any(|job| job.deadline() <= time) { Err(Unwritten::Late) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use syncguard_core::authoring::cancel::Caller;
    use syncguard_core::{ErrorCode, Fence, Key};
    use tokio::sync::oneshot;

    use super::*;
    use crate::SqliteOptions;
    use crate::clock::Moment;
    use crate::error::Failure;
    use crate::job::{Pending, Progress};
    use crate::operation::Operation;
    use crate::settings::Settings;

    /// Writes a counter, and is stopped then for as long as this.
    struct Stopped(Key, Duration);

    impl Operation for Stopped {
        type Output = ();

        fn look(&self, _: Store<'_>, _: &Moment) -> Result<Option<()>, Failure> {
            Ok(None)
        }

        fn change(&self, store: Store<'_>, _: &Moment) -> Result<(), Failure> {
            store.set_counter(&self.0, Fence::try_from(7_i64)?)?;
            std::thread::sleep(self.1);
            Ok(())
        }
    }

    /// The answer to an operation that may take this long and is stopped for that long, and whether it is in the file.
    fn written(bound: Duration, stop: Duration) -> (Result<(), LockError>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let settings = Settings::new(SqliteOptions::new()).unwrap();
        let kept_out = Arc::new(AtomicBool::new(false));
        let open = || {
            let deadline = uptime() + Duration::from_secs(60);
            crate::open::open(&path, &settings, deadline, &kept_out).unwrap()
        };
        let key = Key::new("key").unwrap();
        let (reply, mut answer) = oneshot::channel();
        let job = Pending {
            operation: Stopped(key.clone(), stop),
            caller: Caller::new(None),
            deadline: uptime() + bound,
            progress: Arc::new(Progress::default()),
            reply,
            answer: None,
        };
        let (sender, inbox) = channel::<Box<dyn Job>>();
        sender.send(Box::new(job)).unwrap();
        drop(sender);
        let flag = Arc::clone(&kept_out);
        Writer::new(open(), inbox, flag, Watches::default(), Awake::new()).run();
        let is_there = Store(&open().connection).counter(&key).unwrap().is_some();
        (answer.try_recv().unwrap(), is_there)
    }

    /// A process can be stopped between its writing and its commit: a caller who has given up gets nothing then.
    #[test]
    fn the_deadline_is_looked_at_again_before_the_commit() {
        let (answer, is_there) = written(Duration::from_secs(60), Duration::ZERO);
        assert!(answer.is_ok() && is_there, "{answer:?}");
        let bound = Duration::from_millis(500);
        let (answer, is_there) = written(bound, bound);
        let error = answer.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NetworkTimeout);
        assert!(!error.is_outcome_unknown() && !is_there);
    }
}
