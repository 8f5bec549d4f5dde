//! Forgets facts that make no difference any more.

use super::{
    Answer, Asks, At, Begun, Flaw, NOTHING, Owner, Postgres, Request, Row, Rules, Which, World,
    Write, Written,
};
use crate::rules::Ticks;
use crate::world::Client;

/// The value for a snapshot's counter that has changed since, because it only grows. Statements of the TypeScript
/// library have none.
pub(super) const EARLIER: u8 = u8::MAX;

/// Fences only have to grow, so only two facts matter: whether the counter has changed since a snapshot, and whether
/// it is behind a lock's fence.
pub(super) fn rebase(world: &mut World<Postgres>) {
    let counter = world.store.counter;
    let fence_of = |request: &Request<Postgres>| match request.at {
        At::Written(Written { write: Write::Insert { fence, .. }, .. }) => Some(fence),
        _ => None,
    };
    if world.requests().filter_map(fence_of).all(|fence| fence > counter) {
        // All later fences are above both.
        world.store.highest = world.store.highest.max(counter);
    }
    let lowest = world.requests().filter_map(fence_of).min().unwrap_or(u8::MAX);
    let lowest = lowest.min(counter).min(world.store.highest);
    for request in requests(world) {
        match &mut request.at {
            At::Begun(Begun { counter: seen, .. }) if *seen != EARLIER => {
                *seen = if *seen == counter { counter - lowest } else { EARLIER };
            }
            At::Written(Written { write: Write::Insert { fence, .. }, .. }) => *fence -= lowest,
            _ => {}
        }
    }
    world.store.counter -= lowest;
    world.store.highest -= lowest;
}

fn requests(world: &mut World<Postgres>) -> impl Iterator<Item = &mut Request<Postgres>> {
    let clients = world.clients.iter_mut();
    clients.flat_map(|client| client.waits.iter_mut().chain(client.late.iter_mut().flatten()))
}

/// Returns true if the server will refuse it at any time.
fn is_over(rules: &Rules, sent: Ticks) -> bool {
    0 > sent + rules.bound && !rules.has_any(&[Flaw::NoDeadline, Flaw::StaleNow])
}

/// Returns true if it will be refused, and writes nothing until then.
fn is_doomed(rules: &Rules, request: &Request<Postgres>) -> bool {
    match request.at {
        At::Sent => is_over(rules, request.sent),
        At::Begun(Begun { counter, .. }) => {
            let is_counted = rules.has(Flaw::CounterNotCompared);
            is_over(rules, request.sent) || counter == EARLIER && !is_counted
        }
        _ => false,
    }
}

pub(super) fn forget(world: &mut World<Postgres>, rules: &Rules) {
    owner_of_what_is_expired(world, rules);
    for who in 0..world.clients.len() {
        let row = world.store.row;
        let is_last = world.left.lost == 0;
        let client = &mut world.clients[who];
        if client.is_typescript {
            continue;
        }
        for late in &mut client.late {
            late.take_if(|late| is_doomed(rules, late));
        }
        let now = *client;
        let can_be = |number| {
            row.is_some_and(|row| row.owner == Owner::new(who, number)) || now.can_acquire(number)
        };
        if rules.has(Flaw::ReleaseOfAnyone) {
            continue;
        }
        for late in &mut client.late {
            late.take_if(|it| it.at == At::Sent && it.asks != Asks::Acquire && !can_be(it.number));
        }
        if let Some(waits) = &mut client.waits
            && is_last
            && waits.at == At::Sent
            && waits.answer.is_none()
            && matches!(waits.asks, Asks::Release { .. })
        {
            if is_doomed(rules, waits) {
                waits.answer = Some(Answer::Late);
            } else if !can_be(waits.number) {
                waits.answer = Some(Answer::NotHeld);
            }
            client.answered(rules, Which::Awaited);
        }
        for job in &mut client.jobs {
            job.take_if(|job| !can_be(job.number));
        }
    }
    let may_lose = world.left.lost > 0;
    for client in &mut world.clients {
        let is_typescript = client.is_typescript;
        for (is_late, request) in (client.waits.iter_mut().map(|it| (false, it)))
            .chain(client.late.iter_mut().flatten().map(|it| (true, it)))
        {
            times(request, rules, is_typescript, is_late, may_lose);
        }
    }
}

/// An expired row has no owner, and its age does not matter, unless a client is extending it, or began while it was
/// live in the TypeScript library.
fn owner_of_what_is_expired(world: &mut World<Postgres>, rules: &Rules) {
    let extends = |at| matches!(at, At::Written(Written { write: Write::Expiry(_), .. }));
    let is_extended = world.requests().any(|request| extends(request.at));
    let is_over = |row: &Row| !row.is_live(rules, 0) && !is_extended;
    let Some(found) = world.store.row.filter(is_over) else { return };
    let saw_it_live = |client: &Client<Postgres>| {
        let begun = client.waits.filter(|_| client.is_typescript);
        begun.is_some_and(|it| matches!(it.at, At::Begun(begun) if found.is_live(rules, begun.at)))
    };
    let mut row = found;
    if !world.clients.iter().any(saw_it_live) {
        row.expires = super::oldest(rules);
    }
    let owner = world.clients.get(usize::from(row.owner.client));
    if !owner.is_some_and(saw_it_live) {
        row.owner = Owner::NOBODY;
        row.is_revived = false;
    }
    world.store.row = Some(row);
}

fn times(
    request: &mut Request<Postgres>,
    rules: &Rules,
    is_typescript: bool,
    is_late: bool,
    may_lose: bool,
) {
    let is_acquire = request.asks == Asks::Acquire;
    match &mut request.at {
        // Our statements do not depend on their start.
        At::Begun(begun) | At::HasTurn(begun) if !is_typescript && !rules.has(Flaw::StaleNow) => {
            begun.at = 0;
        }
        // The write cannot be refused any more; its send time only limits the clean-up if the answer is lost.
        At::Written(_) => {
            if is_late || !is_acquire || !may_lose && !request.is_again {
                request.sent = 0;
            }
            if let Asks::Extend { ttl, known } = &mut request.asks {
                if is_late {
                    *ttl = 0;
                }
                if is_late || !may_lose {
                    *known = NOTHING;
                }
            }
        }
        _ => {}
    }
    // Requests of the TypeScript library have no deadline, and are not resent.
    if is_typescript {
        request.sent = 0;
    }
}

/// An acquire that will be refused is refused at once, although it may have to wait for others. This does not hold
/// for a resent acquire that has not begun: it may find its lock.
pub(super) fn hasten(world: &mut World<Postgres>, rules: &Rules) {
    for client in world.clients.iter_mut().filter(|client| !client.is_typescript) {
        let Some(waits) = &mut client.waits else { continue };
        let is_known = !waits.is_again || waits.at != At::Sent;
        if waits.answer.is_none()
            && waits.asks == Asks::Acquire
            && is_known
            && is_doomed(rules, waits)
        {
            waits.at = At::Sent;
            waits.answer = Some(Answer::Late);
            client.answered(rules, Which::Awaited);
        }
    }
}
