//! What makes no difference any more.

use super::{
    Answer, Asks, At, Begun, Flaw, NOTHING, Owner, Postgres, Request, Rules, Which, World, Write,
    Written, row_is_free,
};
use crate::rules::Ticks;
use crate::world::Client;

/// A snapshot's counter that is not the one of now, and never will be: it only grows. Theirs has none.
pub(super) const EARLIER: u8 = u8::MAX;

/// Fences only have to grow: what matters of the counter is whether it has moved since a snapshot, and
/// whether it is behind a lock's.
pub(super) fn rebase(world: &mut World<Postgres>, rules: &Rules) {
    let is_reset = rules.has(Flaw::CounterCleanedUp);
    let counter = world.store.counter;
    let fence_of = |request: &Request<Postgres>| match request.at {
        At::Written(Written { write: Write::Insert { fence, .. }, .. }) => Some(fence),
        _ => None,
    };
    if world.requests().filter_map(fence_of).all(|fence| fence > counter) {
        // All to come are above both.
        world.store.highest = world.store.highest.max(counter);
    }
    let seen = |request: &Request<Postgres>| match request.at {
        At::Begun(begun) if is_reset => Some(begun.counter),
        _ => fence_of(request),
    };
    let lowest = world.requests().filter_map(seen).min().unwrap_or(u8::MAX);
    let lowest = lowest.min(counter).min(world.store.highest);
    for request in requests(world) {
        match &mut request.at {
            At::Begun(Begun { counter: seen, .. }) if *seen != EARLIER => {
                *seen = if is_reset || *seen == counter { *seen - lowest } else { EARLIER };
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

/// Whether the server refuses it whenever it comes.
fn is_over(rules: &Rules, sent: Ticks) -> bool {
    0 > sent + rules.bound && !rules.has_any(&[Flaw::NoDeadline, Flaw::StaleNow])
}

/// Whether it will be refused, and writes nothing until then.
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
        if is_last {
            refuse(client, rules);
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
            && !can_be(waits.number)
        {
            waits.answer = Some(Answer::NotHeld);
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

/// An expired row is nobody's, unless somebody is writing it or, by their library, saw it live.
fn owner_of_what_is_expired(world: &mut World<Postgres>, rules: &Rules) {
    let is_free = row_is_free(world);
    let Some(row) = world.store.row.filter(|row| !row.is_live(rules, 0) && is_free) else { return };
    let mut clients = world.clients.iter().enumerate();
    let is_seen = clients.any(|(who, client)| {
        client.is_typescript
            && row.owner.client == Owner::new(who, 0).client
            && client.waits.is_some_and(|it| matches!(it.at, At::Begun(_)))
    });
    if !is_seen && let Some(row) = &mut world.store.row {
        row.owner = Owner::NOBODY;
        row.is_revived = false;
    }
}

/// What will be refused is refused at once, if it is the same when: not an extend, whose refusals differ,
/// and not an acquire that was sent before, and may have its lock.
fn refuse(client: &mut Client<Postgres>, rules: &Rules) {
    let Some(waits) = client.waits.as_mut().filter(|it| it.answer.is_none()) else { return };
    let is_known = match waits.asks {
        Asks::Acquire => !waits.is_again || waits.at != At::Sent,
        Asks::Release { .. } => true,
        Asks::Extend { .. } => false,
    };
    if is_known && is_doomed(rules, waits) {
        waits.at = At::Sent;
        waits.answer = Some(Answer::Late);
        client.answered(rules, Which::Awaited);
    }
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
        // Our statements do not care when they began.
        At::Begun(begun) | At::HasTurn(begun) if !is_typescript && !rules.has(Flaw::StaleNow) => {
            begun.at = 0;
        }
        // It is not refused any more; when it was sent only tells how long to see to it if it is lost.
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
    // Theirs have no deadline, and are not sent again.
    if is_typescript {
        request.sent = 0;
    }
}

/// An extend that is too late changes nothing, and its holder is the better off the less it hears of why.
pub(super) fn hasten(world: &mut World<Postgres>, rules: &Rules) {
    if world.left.extends > 0 {
        return;
    }
    for client in world.clients.iter_mut().filter(|client| !client.is_typescript) {
        let waits = client.waits.as_mut().filter(|it| it.answer.is_none() && it.at == At::Sent);
        if let Some(waits) = waits.filter(|it| matches!(it.asks, Asks::Extend { .. }))
            && is_over(rules, waits.sent)
        {
            waits.answer = Some(Answer::Late);
            client.answered(rules, Which::Awaited);
        }
    }
}
