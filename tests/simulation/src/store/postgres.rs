//! The statements of `syncguard-postgres/src/sql`, wait by wait, under READ COMMITTED.
//!
//! A statement sees what was committed when it began. Where it comes to lock a row that another one has
//! written, it waits, and then judges the newest version; so it does after the wait for the advisory
//! lock. What it writes is seen by others when it has committed, which may take its time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use syncguard_core::{Key, LockId};
use syncguard_history::Random;

use super::Done;
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
}

#[derive(Debug, Default)]
struct Locks(HashMap<Key, (usize, VecDeque<usize>)>);

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

impl Locks {
    /// Whether it is this statement's now; else it stands in line.
    fn take(&mut self, key: &Key, statement: usize) -> bool {
        if let Some((holder, line)) = self.0.get_mut(key) {
            if *holder != statement && !line.contains(&statement) {
                line.push_back(statement);
            }
            return *holder == statement;
        }
        self.0.insert(key.clone(), (statement, VecDeque::new()));
        true
    }

    fn is_free(&self, key: &Key) -> bool {
        !self.0.contains_key(key)
    }

    /// Gives up everything that a statement has or waits for; says who goes on.
    fn give_up(&mut self, key: &Key, statement: usize, woken: &mut Vec<usize>) {
        let Some((holder, line)) = self.0.get_mut(key) else { return };
        line.retain(|other| *other != statement);
        if *holder != statement {
            return;
        }
        match line.pop_front() {
            Some(next) => {
                *holder = next;
                woken.push(next);
            }
            None => {
                self.0.remove(key);
            }
        }
    }
}

impl Postgres {
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
                // A commit may take its time: a disk, a standby.
                let is_commit = matches!(stage, Stage::Writes(..));
                statement.stage = stage;
                let late = if is_commit && random.below(200) == 0 { 400_000 } else { 100 };
                Some(random.below(late))
            }
        };
        self.statements.insert(number, statement);
        (pause, done, freed)
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

    /// acquire.sql, and `decide` in acquire.rs.
    fn acquire(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        (key, id, ttl, deadline): (&Key, LockId, u64, u64),
    ) -> Next {
        match statement.stage {
            // `stored` and `counter`. A contended acquire ends here.
            Stage::Sent => {
                statement.saw = self.rows.get(key).cloned();
                statement.counter = self.counters.get(key).copied().unwrap_or(0);
                match statement.saw.as_ref().filter(|row| row.is_live(now)) {
                    Some(row) if row.id == id => Next::Ends(Reply::Granted {
                        fence: row.fence,
                        expires_at: row.expires_at,
                        is_fresh: false,
                    }),
                    Some(row) => Next::Ends(Reply::Held { expires_at: row.expires_at, now }),
                    None => Next::Stage(Stage::Turn),
                }
            }
            Stage::Turn if !self.turns.take(key, number) => Next::Waits,
            Stage::Turn => Next::Stage(Stage::Row),
            // `expired`: the row as it is now, once whoever is writing it has finished.
            Stage::Row if statement.saw.is_some() && !self.row_locks.take(key, number) => {
                Next::Waits
            }
            Stage::Row => {
                let is_expired = self.rows.get(key).is_some_and(|row| !row.is_live(now));
                if statement.saw.is_some() && !is_expired {
                    return Next::Ends(Reply::Overtaken);
                }
                Next::Stage(Stage::Judges)
            }
            // `time`, `numbered` and `taken`.
            Stage::Judges => {
                if now > deadline {
                    return Next::Ends(Reply::Late { now });
                }
                let counter = self.counters.get(key).copied().unwrap_or(0);
                if counter != statement.counter {
                    return Next::Ends(Reply::Overtaken);
                }
                if !self.row_locks.take(key, number) {
                    return Next::Waits;
                }
                if self.rows.get(key).is_some_and(|row| row.is_live(now)) {
                    let write = Write::OnlyCounter(key.clone());
                    return Next::Stage(Stage::Writes(write, Some(Reply::Overtaken)));
                }
                let (fence, expires_at) = (counter + 1, now + ttl);
                let row = Record { key: key.clone(), id, fence, acquired_at: now, expires_at };
                let reply = Reply::Granted { fence, expires_at, is_fresh: true };
                Next::Stage(Stage::Writes(Write::Take(row), Some(reply)))
            }
            Stage::Writes(..) => Next::Ends(Reply::Cancelled),
        }
    }

    /// extend.sql, and `decide` in extend.rs.
    fn extend(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        (id, ttl, expected, deadline): (LockId, u64, Option<u64>, u64),
    ) -> Next {
        let not_held = |is_expired| Next::Ends(Reply::NotHeld { is_expired, now });
        let key = statement.saw.as_ref().map(|row| row.key.clone());
        match (&statement.stage, key) {
            (Stage::Sent, _) => {
                statement.saw = self.row_of(id).cloned();
                match &statement.saw {
                    None => not_held(false),
                    Some(row) if !row.is_live(now) => not_held(true),
                    Some(_) => Next::Stage(Stage::Turn),
                }
            }
            (Stage::Turn, Some(key)) if !self.turns.take(&key, number) => Next::Waits,
            (Stage::Turn, _) => Next::Stage(Stage::Row),
            (Stage::Row, Some(key)) if !self.row_locks.take(&key, number) => Next::Waits,
            (Stage::Row, _) => Next::Stage(Stage::Judges),
            (Stage::Judges, Some(key)) => {
                let Some(row) = self.rows.get(&key).filter(|row| row.id == id) else {
                    return not_held(true);
                };
                if now > deadline {
                    return Next::Ends(Reply::Late { now });
                }
                if !row.is_live(now) {
                    return not_held(true);
                }
                if expected.is_some_and(|expected| expected != row.expires_at) {
                    return Next::Ends(Reply::Mismatch { expires_at: row.expires_at });
                }
                let expires_at = now + ttl + u64::from(now + ttl == row.expires_at);
                let write = Write::Expiry(key, expires_at);
                Next::Stage(Stage::Writes(write, Some(Reply::Extended { expires_at })))
            }
            _ => Next::Ends(Reply::Cancelled),
        }
    }

    /// release.sql.
    fn release(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        id: LockId,
        deadline: u64,
    ) -> Next {
        let is_late = now > deadline;
        let key = statement.saw.as_ref().map(|row| row.key.clone());
        match (&statement.stage, key) {
            (Stage::Sent, _) => {
                statement.saw = self.row_of(id).cloned();
                match &statement.saw {
                    None => Next::Ends(Reply::NotHeld { is_expired: false, now }),
                    Some(_) if is_late => Next::Ends(Reply::Late { now }),
                    Some(row) if !row.is_live(now) => {
                        Next::Ends(Reply::NotHeld { is_expired: true, now })
                    }
                    Some(_) => Next::Stage(Stage::Row),
                }
            }
            (Stage::Row, Some(key)) => {
                if !self.row_locks.take(&key, number) {
                    return Next::Waits;
                }
                let newest = self.rows.get(&key);
                // Where it was written meanwhile, its newest version is judged.
                let is_same = newest == statement.saw.as_ref();
                let is_ours = newest.is_some_and(|row| row.id == id && row.is_live(now));
                if !is_same && (!is_ours || is_late) {
                    // The snapshot is all that it can judge by.
                    let is_expired = statement.saw.as_ref().is_some_and(|row| !row.is_live(now));
                    let reply = Reply::NotHeld { is_expired, now };
                    return Next::Ends(if is_late { Reply::Late { now } } else { reply });
                }
                // Where it was only held up, the time is read once more: it may have expired.
                let reply = if is_ours {
                    Reply::Released
                } else {
                    Reply::NotHeld { is_expired: true, now }
                };
                Next::Stage(Stage::Writes(Write::Delete(key), Some(reply)))
            }
            _ => Next::Ends(Reply::Cancelled),
        }
    }

    /// settle.sql.
    fn settle(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        key: &Key,
        id: LockId,
    ) -> Next {
        match statement.stage {
            Stage::Sent => {
                statement.saw = self.row_of(id).filter(|row| row.is_live(now)).cloned();
                statement.is_alone = self.turns.is_free(key) && self.turns.take(key, number);
                Next::Stage(Stage::Row)
            }
            Stage::Row => {
                let is_alone = statement.is_alone;
                let look = Reply::Look { is_alone, now };
                let Some(row) = &statement.saw else { return Next::Ends(look) };
                if !self.row_locks.take(&row.key, number) {
                    return Next::Waits;
                }
                let is_ours =
                    self.rows.get(&row.key).is_some_and(|row| row.id == id && row.is_live(now));
                let write = if is_ours { Write::Delete(row.key.clone()) } else { Write::Nothing };
                Next::Stage(Stage::Writes(write, Some(look)))
            }
            _ => Next::Ends(Reply::Cancelled),
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
            Write::Delete(key) => {
                if let Some(row) = self.rows.remove(key) {
                    self.ids.remove(&row.id);
                }
            }
            Write::Nothing => {}
        }
    }
}
