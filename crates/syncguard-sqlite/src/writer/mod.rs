//! The writer thread, which alone works on the file for its backend.
//!
//! SQLite blocks its thread, and allows one writer at a time. So all operations of a backend come to this
//! thread over a channel. The thread takes all operations that wait in the channel and writes them in one
//! transaction (group commit): they wait for the disk once. Each operation is decided by itself, in its
//! order, and gets its own answer after the commit. The answer goes over a oneshot channel to the future of
//! the caller. Both channels keep a message until it is received, so no wake-up is lost.
//!
//! While another process writes, the thread retries, and meanwhile answers operations that need no change,
//! above all contended acquires.

mod batch;
mod queued;
mod sync_level;

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use syncguard_core::authoring::RetryPauses;
use syncguard_core::{Jitter, LockError};

use self::batch::{Batch, answer, fail, partition, roll_back};
use self::sync_level::SyncLevel;
use crate::changes::Changes;
use crate::clock::{Clock, uptime};
use crate::connect::OpenStore;
use crate::error::{busy, classify, is_busy, is_full, late};
use crate::open_files::OpenFiles;
use crate::signals::Watches;
use crate::store::Store;

pub(crate) use self::queued::{Progress, Queued, QueuedOperation};

/// The pauses before the next try to write while another process holds SQLite's write lock.
const BUSY: RetryPauses = RetryPauses::new(Duration::from_micros(100), Duration::from_millis(3));

/// The largest number of operations in one transaction; later ones wait for its end.
const MAX_BATCH: usize = 256;

/// SQLite empties the log into the file when the log has reached 4 MB and no process reads in it. When the
/// log has more than this many bytes, the thread empties it itself.
const MAX_LOG_BYTES: u64 = 16 << 20;

/// While keys are watched, the thread checks this often whether another process has changed the file, if the system does
/// not tell. A check reads two words of shared memory.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The pauses between checks if the system tells of changes: after it has told, the change is not yet in the file.
const TOLD: RetryPauses = RetryPauses {
    first: Duration::from_millis(5),
    longest: Duration::from_secs(2),
    jitter: Jitter::None,
};

/// After this many checks in vain the pause has its full length.
const LONG_AFTER: u32 = 10;

/// An operation, or word that another process may have changed the file.
pub(crate) type Letter = Option<Box<dyn Queued>>;

pub(crate) struct Writer {
    connection: Connection,
    files: OpenFiles,
    clock: Clock,
    inbox: Receiver<Letter>,
    outbox: Weak<Sender<Letter>>,
    /// True while another process holds the write lock.
    is_blocked: Arc<AtomicBool>,
    watches: Watches,
    /// While keys are watched: what tells of changes, or why nothing does.
    changes: Option<io::Result<Changes>>,
    sync_level: SyncLevel,
    /// The number of the file's pages after the last grant.
    pages: Cell<i64>,
}

/// The result of a transaction.
enum Written {
    /// All operations are answered.
    All,
    /// These operations are not answered: another process holds the write lock, or the transaction was
    /// rolled back because an operation in it was late.
    NotYet { batch: Batch, is_blocked: bool },
}

impl Writer {
    pub(crate) fn new(
        store: OpenStore,
        inbox: Receiver<Letter>,
        outbox: Weak<Sender<Letter>>,
        is_blocked: Arc<AtomicBool>,
        watches: Watches,
    ) -> Self {
        let OpenStore { connection, files, clock, synchronous, .. } = store;
        let sync_level = SyncLevel::new(synchronous, clock.knows_boot());
        let pages = Cell::new(pages(&connection));
        let changes = None;
        Self {
            connection,
            files,
            clock,
            inbox,
            outbox,
            is_blocked,
            watches,
            changes,
            sync_level,
            pages,
        }
    }

    /// Runs until the senders of the channel are dropped.
    pub(crate) fn run(mut self) {
        let (mut version, mut in_vain) = (None, 0);
        loop {
            let mut before = version;
            match self.receive(in_vain) {
                Ok(Some(first)) => {
                    let mut batch = vec![first];
                    self.add_waiting(&mut batch);
                    self.serve(batch);
                    // `data_version` does not change for our own writes, so check the watches anyway.
                    before = None;
                }
                Ok(None) => in_vain = 0,
                Err(RecvTimeoutError::Timeout) => in_vain += 1,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            version = self.watches.poll(&self.connection, &self.files, &self.clock, before);
            match version {
                // Nobody watches.
                None => in_vain = 0,
                // The system has told nothing, as for the writes of another kernel.
                Some(_) if in_vain > LONG_AFTER && before.is_some() && version != before => {
                    self.changes = Some(Err(ErrorKind::Unsupported.into()));
                }
                Some(_) => {}
            }
        }
    }

    /// Waits for an operation; only until the next check if keys are watched.
    ///
    /// A new watch wakes the thread: `watch` adds it, and then sends an operation.
    fn receive(&mut self, in_vain: u32) -> Result<Letter, RecvTimeoutError> {
        if !self.watches.any_left() {
            self.changes = None;
            return self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        let changes = self.changes.get_or_insert_with(|| {
            let outbox = Weak::clone(&self.outbox);
            Changes::of(self.files.log(), move || {
                let _ = outbox.upgrade().map(|outbox| outbox.send(None));
            })
        });
        let pause = if changes.is_ok() { TOLD.pause(in_vain + 1) } else { POLL_INTERVAL };
        self.inbox.recv_timeout(pause)
    }

    /// Adds the operations that wait in the channel.
    fn add_waiting(&self, batch: &mut Batch) {
        let room = MAX_BATCH.saturating_sub(batch.len());
        batch.extend(self.inbox.try_iter().flatten().take(room));
    }

    fn serve(&self, batch: Batch) {
        let mut tries = 0;
        let mut waiting = self.read(batch);
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(MAX_BATCH));
            let written = self.write(waiting);
            waiting = rest;
            let Written::NotYet { mut batch, is_blocked } = written else { continue };
            // These operations came first.
            batch.append(&mut waiting);
            waiting = batch;
            if is_blocked {
                self.is_blocked.store(true, Ordering::Release);
                tries += 1;
                let more = self.receive_for(BUSY.pause(tries));
                waiting.extend(self.read(more));
                waiting = self.drop_unwanted(waiting);
            }
        }
        self.is_blocked.store(false, Ordering::Release);
    }

    /// Answers the operations that are no longer wanted, and returns the others.
    fn drop_unwanted(&self, batch: Batch) -> Batch {
        let (wanted, unwanted) = partition(batch, |operation| operation.is_wanted(self.overdue()));
        answer(unwanted);
        wanted
    }

    /// Returns the error of an operation that could not begin before its deadline.
    fn overdue(&self) -> fn() -> LockError {
        if self.is_blocked.load(Ordering::Acquire) { busy } else { late }
    }

    /// Pauses for this long, or until operations arrive, and returns these.
    fn receive_for(&self, pause: Duration) -> Batch {
        let mut batch = Vec::new();
        match self.inbox.recv_timeout(pause) {
            Ok(first) => {
                batch.extend(first);
                self.add_waiting(&mut batch);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
        }
        batch
    }

    /// Answers the operations that need no change, and returns the others.
    fn read(&self, batch: Batch) -> Batch {
        let batch = self.drop_unwanted(batch);
        if batch.is_empty() {
            return batch;
        }
        // Read the clock before the file: a lock that has expired by this time and is still in the file was
        // not extended in between.
        let now = match self.files.check().and_then(|_| self.clock.now()) {
            Ok(now) => now,
            Err(error) => {
                fail(batch, &error);
                return Vec::new();
            }
        };
        // One snapshot serves all operations. If SQLite gives none, each operation has a snapshot of its own.
        let _snapshot = (batch.len() > 1).then(|| self.connection.unchecked_transaction());
        let store = Store(&self.connection);
        let read = |mut operation: Box<dyn Queued>| match operation.read(store, &now) {
            Ok(true) => {
                operation.answer();
                None
            }
            Ok(false) => Some(operation),
            Err(error) if is_busy(&error) => Some(operation),
            Err(error) => {
                operation.fail(&classify(&error));
                None
            }
        };
        batch.into_iter().filter_map(read).collect()
    }

    /// Carries operations out: all in one transaction, or if that fails, each in a transaction of its own.
    fn write(&self, batch: Batch) -> Written {
        let (batch, failed) = match self.try_write(batch) {
            Ok(written) => return written,
            Err(failed) => failed,
        };
        if batch.len() <= 1 && !is_full(&failed.error) {
            fail(batch, &failed.into_error());
            return Written::All;
        }
        let (mut left, mut any_blocked) = (Vec::new(), false);
        for operation in batch {
            if let Written::NotYet { batch, is_blocked } = self.write_alone(vec![operation]) {
                left.extend(batch);
                any_blocked |= is_blocked;
            }
        }
        if left.is_empty() {
            return Written::All;
        }
        Written::NotYet { batch: left, is_blocked: any_blocked }
    }

    /// Carries one operation out, on a full disk in the space that the log has already.
    fn write_alone(&self, operation: Batch) -> Written {
        let written = self.try_write(operation).or_else(|(operation, failed)| {
            if !is_full(&failed.error) {
                return Err((operation, failed));
            }
            self.free_log();
            self.try_write(operation)
        });
        written.unwrap_or_else(|(operation, failed)| {
            fail(operation, &failed.into_error());
            Written::All
        })
    }

    /// Carries operations out in one transaction. If SQLite fails, the file has nothing of them, and they are
    /// returned.
    fn try_write(&self, batch: Batch) -> Result<Written, (Batch, Failed)> {
        if !self.connection.is_autocommit() {
            // An earlier rollback has failed. No transaction can begin before it succeeds.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let matters_after_reboot = batch.iter().any(|operation| operation.matters_after_reboot());
        let began = self.sync_level.set(&self.connection, matters_after_reboot).and_then(|()| {
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
        });
        let transaction = match began {
            Ok(transaction) => transaction,
            Err(error) if is_busy(&error) => {
                return Ok(Written::NotYet { batch, is_blocked: true });
            }
            Err(error) => return Err((batch, Failed { error, in_commit: false })),
        };
        let (mut begun, unwanted) = partition(batch, |operation| operation.begin(self.overdue()));
        answer(unwanted);
        match write_all(&transaction, &self.clock, &mut begun) {
            Ok(()) => {}
            Err(Unwritten::Clock(error)) => {
                drop(transaction);
                fail(begun, &error);
                return Ok(Written::All);
            }
            Err(Unwritten::Late) => {
                drop(transaction);
                return Ok(Written::NotYet { batch: roll_back(begun), is_blocked: false });
            }
            Err(Unwritten::Sqlite(error)) => {
                drop(transaction);
                return Err((roll_back(begun), Failed { error, in_commit: false }));
            }
        }
        match transaction.commit() {
            Ok(()) => {
                self.send_answers(begun);
                if matters_after_reboot {
                    self.keep_room();
                }
            }
            Err(error) if is_full(&error) => {
                return Err((roll_back(begun), Failed { error, in_commit: true }));
            }
            Err(error) => fail(begun, &Failed { error, in_commit: true }.into_error()),
        }
        Ok(Written::All)
    }

    /// Sends the answers, if the file that was written is still in its place.
    fn send_answers(&self, batch: Batch) {
        match self.files.check() {
            Ok(log_size) => {
                answer(batch);
                if log_size > MAX_LOG_BYTES {
                    self.truncate_log();
                }
            }
            Err(error) => fail(batch, &error.with_unknown_outcome()),
        }
    }

    /// Tries to empty the log. If that fails, the next commit tries again.
    fn truncate_log(&self) {
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
    }

    /// Copies the log into a file that has just grown, while there is room: on a full disk, the log could not be used
    /// again before that.
    fn keep_room(&self) {
        let pages = pages(&self.connection);
        if pages > self.pages.replace(pages) {
            self.free_log();
        }
    }

    /// Copies the log into the file, so that the next transaction begins at the start of the log, where it needs no
    /// more space on the disk. An extend or a release writes no more pages than the acquire before it.
    fn free_log(&self) {
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()));
    }
}

/// Returns the number of pages, or 0 if SQLite does not tell.
fn pages(connection: &Connection) -> i64 {
    let statement = connection.prepare_cached("PRAGMA page_count");
    statement.and_then(|mut pages| pages.query_row((), |row| row.get(0))).unwrap_or(0)
}

/// An error of SQLite that failed a whole transaction.
struct Failed {
    error: rusqlite::Error,
    in_commit: bool,
}

impl Failed {
    fn into_error(self) -> LockError {
        let error = classify(&self.error);
        // No process sees the changes of a failed commit now, but they may come back from the disk after all
        // programs have crashed.
        if self.in_commit { error.with_unknown_outcome() } else { error }
    }
}

/// The reason why a transaction is not committed.
enum Unwritten {
    /// The clock could not be read.
    Clock(LockError),
    /// The deadline of an operation has passed, so the operation must not take effect.
    Late,
    Sqlite(rusqlite::Error),
}

fn write_all(
    transaction: &Transaction<'_>,
    clock: &Clock,
    batch: &mut Batch,
) -> Result<(), Unwritten> {
    // The transaction excludes other writers, so this time is later than all they wrote.
    let now = clock.now().map_err(Unwritten::Clock)?;
    for operation in batch.iter_mut() {
        operation.write(Store(transaction), &now).map_err(Unwritten::Sqlite)?;
    }
    // The process may have been stopped meanwhile.
    let time = uptime();
    let any_late = batch.iter().any(|operation| operation.deadline() <= time);
    if any_late { Err(Unwritten::Late) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
