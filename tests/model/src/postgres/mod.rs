//! PostgreSQL: statements under READ COMMITTED, wait by wait.
//!
//! A statement sees the data that was committed at its start (its snapshot). If it locks a row that another
//! transaction has written, it waits, then uses the newest version; the same holds after the wait for the advisory
//! lock. Others see its writes after its commit, which may take any time.
//!
//! | file | what it mirrors |
//! |---|---|
//! | `ours.rs` | `sql/acquire.sql`, `extend.sql` and `release.sql` of `syncguard-postgres`; `pool.rs` (`query`: sent again on another connection) |
//! | `typescript.rs` | the transactions of the TypeScript library, as `tests/tests/postgres/typescript.rs` has them |
//! | `settle.rs` | `sql/settle.sql`, `src/settle.rs` (two looks), `sql/cleanup.sql` |
//! | `forget.rs` | nothing: it forgets facts that make no difference any more |
//!
//! Left out: transactions of users that hold a row by `check_fence` (`vacant` in `acquire.sql`); holders, which
//! decide nothing; the time of a window. "Taken" is "locked" here: the client has no lock.

mod forget;
mod ours;
mod settle;
mod typescript;

use crate::redis::{NOTHING, tick_known};
use crate::rules::{Flaw, Rules, Ticks};
use crate::world::{
    Again, Answer, Asks, Broken, CLIENTS, Client, Owner, Request, Store, Which, World,
};

/// The committed data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Postgres {
    row: Option<Row>,
    counter: u8,
    /// The highest fence of any lock so far.
    highest: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Row {
    owner: Owner,
    expires: Ticks,
    /// An extend that was given up has committed after its holder's release had found the lock expired. This can
    /// happen if the commit of the extend took longer than the rest of the lock's time. The TTL ends the lock.
    is_revived: bool,
}

/// The progress of a statement or a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum At {
    /// On the network to the server.
    #[default]
    Sent,
    /// Has its snapshot, and waits for the advisory lock, or, for a release, for the row.
    Begun(Begun),
    /// Has the advisory lock; an extend of the TypeScript library has the row.
    HasTurn(Begun),
    /// Has written, and will commit.
    Written(Written),
}

/// Its snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Begun {
    /// The time of the snapshot.
    at: Ticks,
    saw_row: bool,
    counter: u8,
}

/// Its writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Written {
    write: Write,
    /// Holds the advisory lock until its commit.
    has_turn: bool,
    /// Holds the row lock until its commit.
    has_row: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Write {
    Insert {
        row: Row,
        fence: u8,
    },
    /// The fence is used, and the lock was not taken.
    OnlyCounter,
    Expiry(Ticks),
    Delete,
}

/// The progress of a clean-up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cleaning {
    /// The first look has shown that the acquire cannot arrive any more.
    is_second: bool,
    /// True if this look's snapshot has the row.
    look: Option<bool>,
}

impl Row {
    fn is_live(&self, rules: &Rules, now: Ticks) -> bool {
        self.expires + rules.tolerance > now
    }
}

fn turn_is_free(world: &World<Postgres>) -> bool {
    !world.requests().any(|request| match request.at {
        At::HasTurn(_) => !matches!(request.asks, Asks::Release { .. }),
        At::Written(written) => written.has_turn,
        _ => false,
    })
}

fn row_is_free(world: &World<Postgres>) -> bool {
    !world.requests().any(|it| matches!(it.at, At::Written(written) if written.has_row))
}

/// An earlier expiry is like this one: no client takes the lock for live. Transactions of the TypeScript library use
/// their start time, which is kept for the length of a lock; if row and start are older, the row counts as expired.
/// Then they write, which is the worse case.
fn oldest(rules: &Rules) -> Ticks {
    if rules.typescript > 0 { rules.expired() - rules.ttl } else { rules.expired() }
}

/// All writes of a transaction become visible, and its locks are free.
fn commit(
    world: &mut World<Postgres>,
    rules: &Rules,
    owner: Owner,
    write: Write,
) -> Answer<Postgres> {
    let store = &mut world.store;
    match write {
        Write::Insert { row, fence } => {
            if rules.is_one_tick && store.highest > 0 {
                world.broken = Some(Broken::Tick);
            } else if fence <= store.highest {
                world.broken = Some(Broken::Fence);
            }
            store.highest = store.highest.max(fence);
            store.counter = store.counter.max(fence);
            store.row = Some(row);
            Answer::Granted(row.expires)
        }
        Write::OnlyCounter => {
            store.counter += 1;
            Answer::Locked
        }
        Write::Expiry(expires) => {
            let is_over = !world.clients[usize::from(owner.client)].sees_to(owner.number);
            if let Some(row) = store.row.as_mut().filter(|row| row.owner == owner) {
                row.expires = expires;
                row.is_revived = is_over;
            }
            Answer::Extended(expires)
        }
        Write::Delete => {
            store.row = None;
            Answer::Released
        }
    }
}

impl Store for Postgres {
    type Known = Ticks;
    type At = At;
    type Cleaning = Cleaning;
    const SENDS_AGAIN: bool = true;
    const SENDS_EXTENDS_AGAIN: bool = false;
    const KNOWN_COMES_BACK: bool = true;
    const AGAIN: Again = Again::Grant;

    fn empty() -> Self {
        Self { row: None, counter: 0, highest: 0 }
    }

    fn advance(world: &mut World<Self>, rules: &Rules, who: usize, which: Which) -> bool {
        let Some(&mut request) = world.request(who, which) else { return false };
        let owner = Owner::new(who, request.number);
        if let At::Written(Written { write, .. }) = request.at {
            let answer = commit(world, rules, owner, write);
            return done(world, who, which, answer);
        }
        if world.clients[who].is_typescript {
            return typescript::advance(world, rules, (who, which), owner, &request);
        }
        ours::advance(world, rules, (who, which), owner, &request)
    }

    fn settle(world: &mut World<Self>, rules: &Rules, who: usize, job: usize) -> Option<bool> {
        settle::settle(world, rules, who, job)
    }

    fn clean(world: &mut World<Self>, rules: &Rules) -> bool {
        settle::clean(world, rules)
    }

    fn live(world: &World<Self>, rules: &Rules) -> Option<(Owner, Ticks)> {
        let live = world.store.row.filter(|row| row.is_live(rules, 0) && !row.is_revived);
        live.map(|row| (row.owner, row.expires + rules.tolerance))
    }

    fn tick(&mut self, rules: &Rules) {
        if let Some(row) = &mut self.row {
            row.expires = (row.expires - 1).max(oldest(rules));
        }
    }

    fn tick_known(known: &mut Ticks, rules: &Rules) {
        tick_known(known, rules);
    }

    fn tick_at(at: &mut At, rules: &Rules) {
        match at {
            At::Begun(begun) | At::HasTurn(begun) => begun.at = (begun.at - 1).max(-rules.ttl),
            At::Written(Written { write: Write::Insert { row, .. }, .. }) => {
                row.expires = (row.expires - 1).max(oldest(rules));
            }
            At::Written(Written { write: Write::Expiry(expires), .. }) => {
                *expires = (*expires - 1).max(oldest(rules));
            }
            _ => {}
        }
    }

    fn names(&self, who: usize) -> bool {
        self.row.is_some_and(|row| usize::from(row.owner.client) == who)
    }

    fn rename(&mut self, new: &[u8; CLIENTS]) {
        if let Some(row) = &mut self.row {
            row.owner.rename(new);
        }
    }

    fn rename_at(at: &mut At, new: &[u8; CLIENTS]) {
        if let At::Written(Written { write: Write::Insert { row, .. }, .. }) = at {
            row.owner.rename(new);
        }
    }

    fn will_live(request: &Request<Self>, rules: &Rules) -> Option<Ticks> {
        match request.at {
            At::Written(Written { write: Write::Insert { row, .. }, .. }) => {
                Some(row.expires + rules.tolerance)
            }
            At::Written(Written { write: Write::Expiry(expires), .. }) => {
                Some(expires + rules.tolerance)
            }
            At::Written(_) => Some(0),
            _ if matches!(request.asks, Asks::Release { .. }) => Some(0),
            _ => None,
        }
    }

    fn is_outdated(
        world: &World<Self>,
        rules: &Rules,
        owner: Owner,
        request: &Request<Self>,
    ) -> bool {
        let held = world.store.row.filter(|row| row.owner == owner && row.is_live(rules, 0));
        let Asks::Extend { known, .. } = request.asks else { return false };
        request.at == At::Sent
            && request.answer.is_none()
            && held.is_some_and(|held| held.expires != known && known != NOTHING)
    }

    fn rebase(world: &mut World<Self>) {
        forget::rebase(world);
    }

    fn forget(world: &mut World<Self>, rules: &Rules) {
        forget::forget(world, rules);
    }

    fn hasten(world: &mut World<Self>, rules: &Rules) {
        forget::hasten(world, rules);
    }

    fn for_release(_: Ticks) -> Ticks {
        NOTHING
    }

    /// Transactions of the TypeScript library end with their connection; the server carries our statements out.
    fn crashed(client: &mut Client<Self>) {
        if client.is_typescript {
            client.waits.take_if(|it| !matches!(it.at, At::Written(_)));
        }
    }

    fn is_on_its_way(_: &Request<Self>) -> bool {
        true
    }
}

/// The next stage of a request.
fn to(world: &mut World<Postgres>, who: usize, which: Which, at: At) -> bool {
    if let Some(request) = world.request(who, which) {
        request.at = at;
    }
    true
}

/// The answer to a request after the end of its transaction.
fn done(world: &mut World<Postgres>, who: usize, which: Which, answer: Answer<Postgres>) -> bool {
    if let Some(request) = world.request(who, which) {
        request.at = At::Sent;
        request.answer = Some(answer);
    }
    true
}
