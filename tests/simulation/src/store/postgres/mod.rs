//! The statements of `syncguard-postgres/src/sql`, wait by wait, under READ COMMITTED.
//!
//! A statement sees what was committed when it began. Where it comes to lock a row that another one has
//! written, it waits, and then judges the newest version; so it does after the wait for the advisory
//! lock. What it writes is seen by others when it has committed, which may take its time.

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

/// A session's settings end a statement that waits for longer than this, in milliseconds.
const STATEMENT_TIMEOUT: u64 = 300;

#[derive(Debug, Default)]
pub(crate) struct Postgres {
    rows: HashMap<Key, Record>,
    /// By the unique index on the lock id.
    ids: HashMap<LockId, Key>,
    counters: HashMap<Key, u64>,
    /// The advisory locks, and the locks on rows: whose they are.
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
    /// When it began.
    started: Option<u64>,
    stage: Stage,
    /// The row as its snapshot shows it.
    saw: Option<Record>,
    /// The counter as its snapshot shows it.
    counter: u64,
    is_alone: bool,
}

#[derive(Debug)]
enum Stage {
    /// It takes its snapshot.
    Sent,
    /// It waits for the advisory lock.
    Turn,
    /// It waits for the row.
    Row,
    /// There is nothing more to wait for.
    Judges,
    /// It has written, and is to commit.
    Writes(Write, Option<Reply>),
}

#[derive(Debug)]
enum Write {
    Take(Record),
    /// The fence is used up, and the lock was not taken.
    OnlyCounter(Key),
    Expiry(Key, u64),
    /// A flaw: the whole row, whatever has become of it.
    Upsert(Record),
    Delete(Key),
    Nothing,
}

/// What a step leads to.
enum Next {
    Stage(Stage),
    /// It waits until somebody else is done.
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

    /// The longest that the next step may take, in microseconds.
    fn longest_pause(&self, stage: &Stage, random: &mut Random) -> u64 {
        // Some flaws show only where others wait.
        let is_slow = self.flaw.is_some_and(Flaw::needs_slow_steps);
        let (commits, others) = if is_slow { (4, 4) } else { (200, 1000) };
        match stage {
            // A commit may take its time: a disk, a standby.
            Stage::Writes(..) if random.below(commits) == 0 => 400_000,
            // A session that does not get the processor.
            Stage::Turn | Stage::Row | Stage::Judges if random.below(others) == 0 => 250_000,
            _ => 100,
        }
    }

    /// A statement that has not written yet ends.
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
            Request::Acquire { key, .. } | Request::Settle { key, .. } => Some(key),
            _ => None,
        };
        let of_row = statement.saw.as_ref().map(|row| &row.key);
        for key in of_request.into_iter().chain(of_row) {
            self.turns.give_up(key, number, woken);
            self.row_locks.give_up(key, number, woken);
        }
    }

    /// The time that a statement judges by, when all its waiting is over.
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
            Request::Acquire { key, id, ttl, deadline } => {
                self.acquire(number, statement, now, (&key, id, ttl, deadline))
            }
            Request::Extend { id, ttl, expected, deadline } => {
                self.extend(number, statement, now, (id, ttl, expected, deadline))
            }
            Request::Release { id, deadline } => self.release(number, statement, now, id, deadline),
            Request::Settle { key, id } => self.settle(number, statement, now, &key, id),
            Request::IsLocked { key } => {
                Next::Ends(Reply::Is(self.rows.get(&key).is_some_and(|row| row.is_live(now))))
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

    /// Everything of it is seen by all.
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
            Write::OnlyCounter(key) => *self.counters.entry(key.clone()).or_default() += 1,
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
