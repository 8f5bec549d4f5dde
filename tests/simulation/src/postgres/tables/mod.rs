//! The statements of `syncguard-postgres/src/sql`, wait by wait, under READ COMMITTED.
//!
//! A statement sees the data that was committed at its start. If it locks a row that another transaction has written,
//! it waits, then uses the newest version; the same holds after the wait for the advisory lock. Others see its writes
//! after its commit, which may take some time.

mod acquire;
mod held;
mod locks;
mod rows;
mod signals;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use syncguard_history::Random;

use self::locks::Locks;
use self::rows::Row;
use self::signals::Signals;
use super::session::{Cell, Ended};
use super::statements::Statement;
use crate::flaw::Flaw;
use crate::server::Refusal;

/// The settings of a session end a statement that runs longer than this, in milliseconds, and one that waits for
/// another session for half of it.
const STATEMENT_TIMEOUT: i64 = 280;
const LOCK_TIMEOUT: i64 = 150;

/// How long an expired lock counts as live.
const TOLERANCE: i64 = 1000;

#[derive(Default)]
pub(crate) struct Tables {
    rows: HashMap<String, Row>,
    /// The unique index on the lock id: the key of the row.
    ids: HashMap<String, String>,
    counters: HashMap<String, i64>,
    /// The advisory locks of keys.
    turns: Locks,
    /// The locks of rows, by their keys in both tables.
    row_locks: Locks,
    signals: Signals,
    /// The statements in progress.
    running: BTreeMap<usize, Running>,
    begun: usize,
    refusal: Option<Refusal>,
    flaw: Option<Flaw>,
    /// A flaw: the lock ids that no clean-up finds any more.
    forgotten: BTreeSet<String>,
}

/// A statement in progress.
struct Running {
    /// The connection of its session.
    session: u64,
    statement: Statement,
    stage: Stage,
    /// The time of its start.
    started: Option<i64>,
    /// Since when it waits for another statement.
    waits_since: Option<i64>,
    /// The row and the counter in its snapshot.
    saw: Option<Row>,
    /// The keys of the rows that a batch of extends has locked.
    locked: Vec<String>,
    counter: Option<i64>,
    /// The time that it compares with its deadline.
    judged_at: Option<i64>,
    is_alone: bool,
    /// The number of the key whose watchers it will tell.
    tells: Option<i64>,
}

#[derive(Debug)]
enum Stage {
    /// Takes its snapshot.
    Sent,
    /// Waits for the advisory lock.
    Turn,
    /// Waits for the row.
    Row,
    /// Has no more waits for other keys' writers.
    Judges,
    /// Waits for the counter.
    Counts,
    /// Has written, and will commit, and then has this row for its answer.
    Writes(Write, Option<Vec<Cell>>),
}

#[derive(Debug)]
enum Write {
    Take(Row, String),
    /// The fence is used, and the lock was not taken.
    Counter(String, i64),
    Expiry(String, i64),
    Several(Vec<Write>),
    /// A flaw: writes the whole row, whatever its current state.
    Upsert(Row),
    /// With the counter of the key afterwards, if it is raised.
    Delete(String, Option<(String, i64)>),
    Nothing,
}

/// The result of a step.
enum Next {
    Stage(Stage),
    /// Waits for another statement.
    Waits,
    Ends(Option<Vec<Cell>>),
}

/// The results of a step.
#[derive(Default)]
pub(crate) struct Done {
    /// The sessions whose statements have ended.
    pub(crate) ended: Vec<(u64, Ended)>,
    /// Statements that can go on.
    pub(crate) woken: Vec<usize>,
    /// The listening session, the session that notifies, and the text.
    pub(crate) notifications: Vec<(u64, u64, String)>,
    /// The microseconds until the next step of the same statement.
    pub(crate) pause: Option<u64>,
}

impl Tables {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(crate) fn refuses(&mut self, refusal: Option<Refusal>) {
        self.refusal = refusal;
    }

    pub(super) fn begins(&mut self, session: u64, statement: Statement) -> usize {
        self.begun += 1;
        let running = Running {
            session,
            statement,
            stage: Stage::Sent,
            started: None,
            waits_since: None,
            saw: None,
            locked: Vec::new(),
            counter: None,
            judged_at: None,
            is_alone: false,
            tells: None,
        };
        self.running.insert(self.begun, running);
        self.begun
    }

    /// Takes a step of a statement, unless it has ended. `now` is in milliseconds.
    pub(crate) fn goes(&mut self, number: usize, now: u64, random: &mut Random) -> Done {
        let now = i64::try_from(now).expect("63 bits");
        let mut done = Done::default();
        let Some(mut running) = self.running.remove(&number) else { return done };
        let started = *running.started.get_or_insert(now);
        let is_written = matches!(running.stage, Stage::Writes(..));
        let waited = running.waits_since.map_or(0, |since| now - since);
        let refusal = self.refusal.filter(|_| running.statement.is_write());
        let error = if is_written {
            None
        } else if let Some(refusal) = refusal {
            Some(match refusal {
                Refusal::Replica => ("25006", "cannot execute it in a read-only transaction"),
                Refusal::Full => ("53100", "no space left on device"),
            })
        } else if now > started + STATEMENT_TIMEOUT {
            Some(("57014", "canceling statement due to statement timeout"))
        } else if waited > LOCK_TIMEOUT {
            Some(("55P03", "canceling statement due to lock timeout"))
        } else {
            None
        };
        if let Some((code, text)) = error {
            self.ends(number, &running, &mut done);
            done.ended.push((running.session, Ended::Error(code, text)));
            return done;
        }
        match self.step(number, &mut running, now) {
            Next::Ends(row) => {
                self.ends(number, &running, &mut done);
                if is_written && let Some(number) = running.tells {
                    done.notifications = self.signals.told(running.session, number);
                }
                done.ended.push((running.session, Ended::Row(row)));
                return done;
            }
            Next::Waits => {
                // It goes on if another statement ends, or with its limits.
                let since = *running.waits_since.get_or_insert(now);
                let limit = (since + LOCK_TIMEOUT).min(started + STATEMENT_TIMEOUT) + 1;
                done.pause = Some(1000 * (limit - now).unsigned_abs());
            }
            Next::Stage(stage) => {
                running.waits_since = None;
                let longest = self.longest_pause(&stage, random);
                done.pause = Some(random.below(longest));
                running.stage = stage;
            }
        }
        self.running.insert(number, running);
        done
    }

    /// The longest time until the next step, in microseconds.
    fn longest_pause(&self, stage: &Stage, random: &mut Random) -> u64 {
        // Some flaws show only while other statements wait.
        let is_slow = self.flaw.is_some_and(Flaw::needs_slow_steps);
        let (commits, others) = if is_slow { (4, 4) } else { (200, 1000) };
        match stage {
            // A commit may be slow because of a disk or a standby.
            Stage::Writes(..) if random.below(commits) == 0 => 400_000,
            // A session without a processor.
            Stage::Turn | Stage::Row | Stage::Judges if random.below(others) == 0 => 250_000,
            _ => 100,
        }
    }

    /// Ends the statement of a session, if it has not written yet.
    pub(crate) fn cancels(&mut self, session: u64) -> Done {
        let mut done = Done::default();
        let is_it = |(_, it): &(&usize, &Running)| {
            it.session == session && !matches!(it.stage, Stage::Writes(..))
        };
        let number = self.running.iter().find(is_it).map(|(number, _)| *number);
        if let Some((number, running)) =
            number.and_then(|number| self.running.remove_entry(&number))
        {
            self.ends(number, &running, &mut done);
            let ended = Ended::Error("57014", "canceling statement due to user request");
            done.ended.push((session, ended));
        }
        done
    }

    pub(crate) fn restarts(&mut self) {
        self.running.clear();
        self.turns = Locks::default();
        self.row_locks = Locks::default();
        self.signals = Signals::default();
    }

    /// A session listens.
    pub(crate) fn listens(&mut self, session: u64) {
        self.signals.listens(session);
    }

    /// A session is gone.
    pub(crate) fn closes(&mut self, session: u64) {
        self.signals.closes(session);
    }

    /// The number of live locks at a time in milliseconds.
    pub(crate) fn live(&self, now: u64) -> u64 {
        let now = i64::try_from(now).expect("63 bits");
        self.rows.values().filter(|row| row.is_live(now)).count() as u64
    }

    /// Gives up all that the statement has or waits for.
    fn ends(&mut self, number: usize, running: &Running, done: &mut Done) {
        self.signals.unlocks(number);
        let of_row = running.saw.as_ref().map(|row| row.key.as_str());
        let of_batch = running.locked.iter().map(String::as_str);
        for key in running.statement.keys().chain(of_row).chain(of_batch) {
            self.turns.give_up(key, number, &mut done.woken);
            self.row_locks.give_up(key, number, &mut done.woken);
        }
    }

    /// The time that a statement uses after all its waits.
    fn time(&self, running: &Running, now: i64) -> i64 {
        if self.has(Flaw::StaleNow) { running.started.unwrap_or(now) } else { now }
    }

    fn row_of(&self, id: &str) -> Option<&Row> {
        self.rows.get(self.ids.get(id)?).filter(|row| row.id == id)
    }

    fn step(&mut self, number: usize, running: &mut Running, now: i64) -> Next {
        if let Stage::Writes(write, row) = &mut running.stage {
            self.commit(write);
            return Next::Ends(row.take());
        }
        let one = |cell| Next::Ends(Some(vec![cell]));
        match running.statement.clone() {
            Statement::Acquire(asked) => self.acquire(number, running, now, &asked),
            Statement::Extend { id, ttl, expected, deadline } => {
                self.extend(number, running, now, &id, (ttl, expected, deadline))
            }
            Statement::ExtendMany { asked, deadline } => {
                self.extend_many(number, running, now, &asked, deadline)
            }
            Statement::Release { id, raises, is_usual, deadline } => {
                self.release(number, running, now, (&id, raises, is_usual), deadline)
            }
            Statement::Settle { id, key } => self.settle(number, running, now, &id, &key),
            Statement::Counter { counter } => {
                Next::Ends(self.counters.get(&counter).map(|fence| vec![Cell::Number(*fence)]))
            }
            // An acquire that has moved the counter commits first.
            Statement::Raise { counter, .. } if !self.row_locks.take(&counter, number) => {
                Next::Waits
            }
            Statement::Raise { counter, at_least } => {
                let before = self.counters.get(&counter).copied().unwrap_or(0);
                let fence = before.max(at_least);
                let write = Write::Counter(counter, fence);
                Next::Stage(Stage::Writes(write, Some(vec![Cell::Number(fence)])))
            }
            Statement::ByKey { key } => {
                Next::Ends(self.rows.get(&key).map(|row| row.looked_up(now)))
            }
            Statement::ById { id } => Next::Ends(self.row_of(&id).map(|row| row.looked_up(now))),
            Statement::Watch { keys, unwatched } => {
                Next::Ends(Some(self.signals.watches(running.session, &keys, &unwatched)))
            }
            Statement::Poll { mut keys } => {
                keys.retain(|key| !self.rows.get(key).is_some_and(|row| row.is_live(now)));
                Next::Ends(Some(keys.into_iter().map(Cell::Text).collect()))
            }
            Statement::Listener => Next::Ends(Some(Signals::listener(running.session))),
            Statement::Durability => Next::Ends(Some(rows::durability())),
            Statement::Time => one(Cell::Number(now)),
        }
    }

    /// All its writes become visible.
    fn commit(&mut self, write: &Write) {
        match write {
            Write::Take(row, counter) => {
                self.counters.insert(counter.clone(), row.fence);
                self.ids.insert(row.id.clone(), row.key.clone());
                if let Some(before) = self.rows.insert(row.key.clone(), row.clone())
                    && before.id != row.id
                {
                    self.ids.remove(&before.id);
                }
            }
            Write::Counter(counter, fence) => {
                self.counters.insert(counter.clone(), *fence);
            }
            Write::Expiry(key, expires_at) => {
                if let Some(row) = self.rows.get_mut(key) {
                    row.expires_at = *expires_at;
                }
            }
            Write::Several(writes) => {
                for write in writes {
                    self.commit(write);
                }
            }
            Write::Upsert(row) => {
                self.ids.insert(row.id.clone(), row.key.clone());
                self.rows.insert(row.key.clone(), row.clone());
            }
            Write::Delete(key, raised) => {
                self.counters.extend(raised.clone());
                if let Some(row) = self.rows.remove(key) {
                    self.ids.remove(&row.id);
                }
            }
            Write::Nothing => {}
        }
    }
}
