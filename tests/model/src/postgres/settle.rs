//! What ends in the background.

use super::{Answer, Asks, At, Cleaning, Flaw, Owner, Postgres, Rules, Which, World};
use super::{row_is_free, turn_is_free};
use crate::redis::to_u8;

/// `settle.rs`: two looks, one after the other. The second one counts if nobody was in the middle of
/// acquiring the key for the first, and the deadline was over. A job that only repeats a release is one
/// look.
///
/// A look is two steps: its snapshot, and then the advisory lock and the time.
pub(super) fn settle(
    world: &mut World<Postgres>,
    rules: &Rules,
    who: usize,
    job: usize,
) -> Option<bool> {
    let this = world.clients[who].jobs[job]?;
    let owner = Owner { client: to_u8(who), number: this.number };
    let is_ours = world.store.row.is_some_and(|row| row.owner == owner && row.is_live(rules, 0));
    let Some(has_row) = this.at.look else {
        world.clients[who].jobs[job].as_mut()?.at.look = Some(is_ours);
        return Some(false);
    };
    let alone = turn_is_free(world) || rules.has(Flaw::NotAlone);
    if has_row && is_ours {
        if !row_is_free(world) {
            return None;
        }
        world.store.row = None;
    }
    let is_over = 0 > this.sent + rules.bound || rules.has(Flaw::SettledTooSoon);
    let is_last = this.at.is_second || rules.has(Flaw::OneLook);
    let next = &mut world.clients[who].jobs[job].as_mut()?.at;
    *next = Cleaning::default();
    if !this.is_acquire || this.at.is_second {
        return Some(true);
    }
    if !(alone && is_over) {
        return Some(false);
    }
    next.is_second = true;
    Some(is_last)
}

/// `cleanup.sql`: judged anew, and a row in use is left alone.
pub(super) fn clean(world: &mut World<Postgres>, rules: &Rules) -> bool {
    let expired = world.store.row.filter(|row| !row.is_live(rules, 0));
    if world.cleaner.take().is_some() {
        world.store.row = None;
        return true;
    }
    let Some(expired) = expired.filter(|_| row_is_free(world)) else { return false };
    world.left.cleanings -= 1;
    if rules.has(Flaw::UnguardedCleanUp) {
        world.cleaner = Some(expired.expires);
        return true;
    }
    if rules.has(Flaw::CounterCleanedUp) {
        world.store.counter = 0;
    }
    world.store.row = None;
    true
}

/// What can change nothing any more is over as soon as it may be: requests that the server will refuse,
/// whenever they come, and clean-ups that will find nothing.
pub(super) fn drop_what_is_over(world: &mut World<Postgres>, rules: &Rules) {
    let is_over = |sent| 0 > sent + rules.bound;
    for who in 0..world.clients.len() {
        let client = &mut world.clients[who];
        for late in &mut client.late {
            late.take_if(|late| late.at == At::Sent && is_over(late.sent));
        }
        if client.is_typescript {
            continue;
        }
        let waits = client.waits.as_mut().filter(|it| it.answer.is_none() && it.at == At::Sent);
        if let Some(waits) = waits.filter(|it| is_over(it.sent)) {
            // As good as refused: if the lock is its own already, or somebody else's, that is the same.
            let is_first = !waits.is_again || waits.asks != Asks::Acquire;
            if is_first {
                waits.answer = Some(Answer::Late);
                client.answered(rules, Which::Awaited);
            }
        }
        let row = world.store.row;
        let client = &mut world.clients[who];
        let late = client.late;
        for job in &mut client.jobs {
            job.take_if(|job| {
                let owner = Owner { client: to_u8(who), number: job.number };
                let can_come = late.iter().flatten().any(|late| late.number == job.number);
                let is_there = row.is_some_and(|row| row.owner == owner);
                !can_come && !is_there && is_over(job.sent)
            });
        }
    }
    let lowest = world.store.counter.min(world.store.highest);
    let lowest = world.requests().fold(lowest, |lowest, request| match request.at {
        At::Begun(begun) | At::HasTurn(begun) if request.asks == Asks::Acquire => {
            lowest.min(begun.counter)
        }
        _ => lowest,
    });
    rebase(world, lowest);
    // Our statements do not care when they began.
    for client in world.clients.iter_mut().filter(|client| !client.is_typescript) {
        for request in client.waits.iter_mut().chain(client.late.iter_mut().flatten()) {
            if let At::Begun(begun) | At::HasTurn(begun) = &mut request.at {
                begun.at = 0;
            }
        }
    }
}

/// Fences only have to grow: how many there were before makes no difference.
fn rebase(world: &mut World<Postgres>, by: u8) {
    world.store.counter -= by;
    world.store.highest -= by;
    for client in &mut world.clients {
        let is_typescript = client.is_typescript;
        for request in client.waits.iter_mut().chain(client.late.iter_mut().flatten()) {
            match &mut request.at {
                At::Begun(begun) | At::HasTurn(begun)
                    if request.asks == Asks::Acquire && !is_typescript =>
                {
                    begun.counter -= by;
                }
                At::Written(super::Written {
                    write: super::Write::Insert { fence, .. }, ..
                }) => *fence -= by,
                _ => {}
            }
        }
    }
}
