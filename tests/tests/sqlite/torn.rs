//! Files after a power cut: the log is cut off or scrambled at any page, and the database is in the middle of an
//! update.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use syncguard_sqlite::contract::{AcquireRequest, AcquireResult, ExtendRequest, ReleaseRequest};
use syncguard_sqlite::{LockBackend as _, LockId, SqliteBackend, SqliteOptions, Synchronous};

use crate::sqlite::support::{File, HOUR};

const PAGE: usize = 4096;
const LOG_HEADER: usize = 32;
const FRAME: usize = 24 + PAGE;

/// The last fence of a key, and whether it is locked.
type State = BTreeMap<String, (u64, bool)>;

/// The events, and the length of the log at each answer.
struct Past {
    database: Vec<u8>,
    log: Vec<u8>,
    after: Vec<(usize, State)>,
}

/// For each cut: all answers from before the log had this length are there, whole, and nothing else.
#[tokio::test]
async fn a_log_that_is_cut_or_scrambled_at_any_page_forgets_no_answer() -> Result<()> {
    let past = Past::live(&File::new()).await?;
    ensure!(past.after.len() > 20 && past.log.len() > 40 * FRAME, "too little has happened");
    for boundary in (LOG_HEADER..=past.log.len()).step_by(FRAME) {
        for within in [0, 1, 24, 24 + 512, FRAME - 1] {
            let cut = boundary + within;
            if cut > past.log.len() {
                continue;
            }
            let whole = past.log[..cut].to_vec();
            let rest = past.log.len() - cut;
            let zeroed = [&past.log[..cut], &vec![0; rest]].concat();
            let noise: Vec<u8> = (0..rest).map(noise).collect();
            let scrambled = [&past.log[..cut], &noise].concat();
            for log in [whole, zeroed, scrambled] {
                is_as_it_was(&past.database, &log, past.state_at(cut)).await?;
            }
        }
    }
    Ok(())
}

/// The pages are in the database up to one that is half written; the log is whole.
#[tokio::test]
async fn a_database_that_was_being_brought_up_to_date_forgets_no_answer() -> Result<()> {
    let file = File::new();
    let past = Past::live(&file).await?;
    let brought_up = {
        let connection = file.raw();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
        let copy = file.folder().join("brought-up");
        copy_by_another_process(&file.path(), &copy)?;
        fs::read(copy)?
    };
    let pages = brought_up.len() / PAGE;
    ensure!(pages >= 4, "{pages} pages");
    for page in 0..=pages {
        for torn in [0, 512, PAGE / 2] {
            let new = (page * PAGE + torn).min(brought_up.len());
            let mut database = brought_up[..new].to_vec();
            database.extend(past.database.get(new..).unwrap_or_default());
            is_as_it_was(&database, &past.log, past.state_at(past.log.len())).await?;
        }
    }
    Ok(())
}

impl Past {
    /// Locks of all kinds, on a backend that stays open so that the log is as it was.
    async fn live(file: &File) -> Result<Self> {
        let backend = file.open().await;
        let log_path = file.folder().join("locks.db-wal");
        let (mut state, mut after) = (State::new(), Vec::new());
        let mut held: BTreeMap<String, LockId> = BTreeMap::new();
        for round in 0..7_usize {
            for name in ["a", "b", "c", "d"] {
                let key = format!("{name}{}", "x".repeat(round * 40));
                // The first keys of each round come again.
                let key = if name < "c" { name.to_owned() } else { key };
                match held.remove(&key) {
                    Some(lock_id) if round % 2 == 0 => {
                        let extend = ExtendRequest::new(lock_id, 2 * HOUR)?;
                        ensure!(backend.extend(extend).await?.is_extended());
                        held.insert(key.clone(), lock_id);
                    }
                    Some(lock_id) => {
                        let release = ReleaseRequest::new(lock_id);
                        ensure!(backend.release(release).await?.is_released());
                        state.entry(key).and_modify(|(_, is_locked)| *is_locked = false);
                    }
                    None => {
                        let request = AcquireRequest::new(&key, HOUR)?;
                        let AcquireResult::Acquired(lock) = backend.acquire(request).await? else {
                            anyhow::bail!("{key} is locked");
                        };
                        held.insert(key.clone(), lock.lock_id);
                        state.insert(key, (lock.fence.get(), true));
                    }
                }
                let length = usize::try_from(fs::metadata(&log_path)?.len())?;
                after.push((length, state.clone()));
            }
        }
        let (database, log) = (file.folder().join("copy"), file.folder().join("copy-log"));
        copy_by_another_process(&file.path(), &database)?;
        copy_by_another_process(&log_path, &log)?;
        Ok(Self { database: fs::read(database)?, log: fs::read(log)?, after })
    }

    /// The answers when the log had this length.
    fn state_at(&self, length: usize) -> State {
        let last = self.after.iter().rfind(|(until, _)| *until <= length);
        last.map(|(_, state)| state.clone()).unwrap_or_default()
    }
}

/// This process must not open and close a file that SQLite has open in this process.
fn copy_by_another_process(from: &Path, to: &Path) -> Result<()> {
    ensure!(Command::new("cp").args([from, to]).status()?.success());
    Ok(())
}

/// The same bytes in every run.
fn noise(index: usize) -> u8 {
    index.wrapping_mul(131).wrapping_add(7).to_le_bytes()[0]
}

/// The remaining files in a folder of their own: locked keys are locked, free keys are free, and the next fence is a
/// new one.
async fn is_as_it_was(database: &[u8], log: &[u8], state: State) -> Result<()> {
    let file = File::new();
    fs::write(file.path(), database)?;
    fs::write(file.folder().join("locks.db-wal"), log)?;
    let options = SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let backend = SqliteBackend::open_with(file.path(), options).await?;
    for (key, (last, is_locked)) in state {
        match backend.acquire(AcquireRequest::new(&key, HOUR)?).await? {
            AcquireResult::Busy(_) | AcquireResult::Refused(_) => {
                ensure!(is_locked, "{key} was released, and is locked");
            }
            AcquireResult::Acquired(lock) => {
                ensure!(!is_locked, "{key} was locked, and is granted again");
                ensure!(lock.fence.get() == last + 1, "{key}: {:?} after {last}", lock.fence);
            }
        }
    }
    Ok(())
}
