//! The statements of `syncguard-postgres/src/sql`, wait by wait, under READ COMMITTED.
//!
//! A statement sees the data that was committed at its start. If it locks a row that another transaction has written,
//! it waits, then uses the newest version; the same holds after the wait for the advisory lock. Others see its writes
//! after its commit, which may take some time.

mod acquire;
mod held;
mod locks;

use std::collections::{BTreeMap, HashMap};

use syncguard_core::{Key, LockId};
use syncguard_history::Random;

use self::locks::Locks;
use super::Done;
use crate::flaw::Flaw;
use crate::protocol::{Record, Reply, Request};

/// The settings of a session end a statement that waits longer than this, in milliseconds.
const STATEMENT_TIMEOUT: u64 = 300;

#[derive(Debug, Default)]
pub(crate) struct Postgres {
    rows: HashMap<Key, Record>,
    /// The unique index on the lock id.
    ids: HashMap<LockId, Key>,
    counters: HashMap<Key, u64>,
    /// The owners of the advisory locks and of the row locks.
    turns: Locks,
    row_locks: Locks,
    statements: BTreeMap<usize, Statement>,
    begun: usize,
    flaw: Option<Flaw>,
}

#[derive(Debug)]
struct Statement {
    call: u64,
    member: usize,
    request: Request,
    /// The start of the statement.
    started: Option<u64>,
    stage: Stage,
    /// The row in its snapshot.
    saw: Option<Record>,
    /// The counter in its snapshot.
    counter: u64,
    is_alone: bool,
}

#[derive(Debug)]
enum Stage {
    /// Takes its snapshot.
    Sent,
    /// Waits for the advisory lock.
    Turn,
    /// Waits for the row.
    Row,
    /// Has no more waits.
    Judges,
    /// Has written, and will commit.
    Writes(Write, Option<Reply>),
}

#[derive(Debug)]
enum Write {
    Take(Record),
    /// The fence is used, and the lock was not taken.
    OnlyCounter(Key, u64),
    Expiry(Key, u64),
    /// A flaw: writes the whole row, whatever its current state.
    Upsert(Record),
    Delete(Key),
    Nothing,
}

/// The result of a step.
enum Next {
    Stage(Stage),
    /// Waits for another statement.
    Waits,
    Ends(Reply),
}

impl Postgres {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(crate) fn begins(&mut self, call: u64, member: usize, request: Request) -> usize {
        self.begun += 1;
        let (started, stage, saw, counter, is_alone) = (None, Stage::Sent, None, 0, false);
        let statement = Statement { call, member, request, started, stage, saw, counter, is_alone };
        self.statements.insert(self.begun, statement);
        self.begun
    }

    pub(crate) fn goes(
        &mut self,
        number: usize,
        now: u64,
        random: &mut Random,
    ) -> (Option<u64>, Done, Option<Key>) {
        let mut done = Done::default();
        let Some(mut statement) = self.statements.remove(&number) else {
            return (None, done, None);
        };
        let started = *statement.started.get_or_insert(now);
        let is_written = matches!(statement.stage, Stage::Writes(..));
        let next = if now > started + STATEMENT_TIMEOUT && !is_written {
            Next::Ends(Reply::Cancelled)
        } else {
            self.step(number, &mut statement, now)
        };
        let mut freed = None;
        let pause = match next {
            Next::Ends(reply) => {
                if let Stage::Writes(Write::Delete(key), _) = &statement.stage {
                    freed = Some(key.clone());
                }
                self.ends(number, &statement, &mut done.woken);
                done.replies.push((statement.call, statement.member, reply));
                return (None, done, freed);
            }
            Next::Waits => None,
            Next::Stage(stage) => {
                let longest = self.longest_pause(&stage, random);
                statement.stage = stage;
                Some(random.below(longest))
            }
        };
        self.statements.insert(number, statement);
        (pause, done, freed)
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

    /// Ends a statement that has not written yet.
    pub(crate) fn cancels(&mut self, call: u64) -> Done {
        let mut done = Done::default();
        let is_it = |(_, it): &(&usize, &Statement)| {
            it.call == call && !matches!(it.stage, Stage::Writes(..))
        };
        let number = self.statements.iter().find(is_it).map(|(number, _)| *number);
        if let Some((number, statement)) =
            number.and_then(|number| self.statements.remove_entry(&number))
        {
            self.ends(number, &statement, &mut done.woken);
            done.replies.push((statement.call, statement.member, Reply::Cancelled));
        }
        done
    }

    pub(crate) fn restarts(&mut self) {
        self.statements.clear();
        self.turns = Locks::default();
        self.row_locks = Locks::default();
    }

    pub(crate) fn live(&self, now: u64) -> u64 {
        self.rows.values().filter(|row| row.is_live(now)).count() as u64
    }

    fn ends(&mut self, number: usize, statement: &Statement, woken: &mut Vec<usize>) {
        let of_request = match &statement.request {
            Request::Acquire { key, .. }
            | Request::Settle { key, .. }
            | Request::Raise { key, .. } => Some(key),
            _ => None,
        };
        let of_row = statement.saw.as_ref().map(|row| &row.key);
        for key in of_request.into_iter().chain(of_row) {
            self.turns.give_up(key, number, woken);
            self.row_locks.give_up(key, number, woken);
        }
    }

    /// The time that a statement uses after all its waits.
    fn time(&self, statement: &Statement, now: u64) -> u64 {
        if self.has(Flaw::StaleNow) { statement.started.unwrap_or(now) } else { now }
    }

    fn row_of(&self, id: LockId) -> Option<&Record> {
        self.rows.get(self.ids.get(&id)?).filter(|row| row.id == id)
    }

    fn step(&mut self, number: usize, statement: &mut Statement, now: u64) -> Next {
        if let Stage::Writes(write, reply) = &mut statement.stage {
            self.commit(write);
            return Next::Ends(reply.take().unwrap_or(Reply::Cancelled));
        }
        match statement.request.clone() {
            Request::Acquire { key, id, ttl, window, deadline } => {
                let asked = (&key, id, ttl, deadline);
                self.acquire(number, statement, now, asked, window.as_ref())
            }
            Request::Extend { id, ttl, expected, deadline } => {
                self.extend(number, statement, now, (id, ttl, expected, deadline))
            }
            Request::Release { id, deadline } => self.release(number, statement, now, id, deadline),
            Request::Settle { key, id } => self.settle(number, statement, now, &key, id),
            Request::IsLocked { key } => {
                Next::Ends(Reply::Is(self.rows.get(&key).is_some_and(|row| row.is_live(now))))
            }
            Request::Counter { key } => {
                Next::Ends(Reply::Counter(self.counters.get(&key).copied()))
            }
            // An acquire that has moved the counter commits first. An acquire that has only read it begins again.
            Request::Raise { key, .. } if !self.turns.take(&key, number) => Next::Waits,
            Request::Raise { key, at_least } => {
                let counter = self.counters.entry(key).or_default();
                *counter = (*counter).max(at_least);
                Next::Ends(Reply::Counter(Some(*counter)))
            }
            Request::ByKey { key } => {
                Next::Ends(Reply::Found(self.rows.get(&key).filter(|it| it.is_live(now)).cloned()))
            }
            Request::ById { id } => {
                Next::Ends(Reply::Found(self.row_of(id).filter(|it| it.is_live(now)).cloned()))
            }
            _ => Next::Ends(Reply::Time { now }),
        }
    }

    /// All its writes become visible.
    fn commit(&mut self, write: &Write) {
        match write {
            Write::Take(row) => {
                self.counters.insert(row.key.clone(), row.fence);
                self.ids.insert(row.id, row.key.clone());
                if let Some(before) = self.rows.insert(row.key.clone(), row.clone())
                    && before.id != row.id
                {
                    self.ids.remove(&before.id);
                }
            }
            Write::OnlyCounter(key, fence) => {
                self.counters.insert(key.clone(), *fence);
            }
            Write::Expiry(key, expires_at) => {
                if let Some(row) = self.rows.get_mut(key) {
                    row.expires_at = *expires_at;
                }
            }
            Write::Upsert(row) => {
                self.ids.insert(row.id, row.key.clone());
                self.rows.insert(row.key.clone(), row.clone());
            }
            Write::Delete(key) => {
                if let Some(row) = self.rows.remove(key) {
                    self.ids.remove(&row.id);
                }
            }
            Write::Nothing => {}
        }
    }
}
