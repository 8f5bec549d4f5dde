//! Forgets facts that make no difference any more.

use super::{
    ABSENT, At, Firestore, Flaw, Known, Look, NEWEST, OLD, Owner, Phase, Request, Rules, Which,
    World,
};
use crate::world::{Answer, Asks, Client};

/// Fences only have to grow, so their number makes no difference.
pub(super) fn rebase(world: &mut World<Firestore>) {
    let counter = world.store.counter;
    let fence_of = |request: &Request<Firestore>| match request.at {
        At::Commits { fence, .. } if request.asks == Asks::Acquire => Some(fence),
        _ => None,
    };
    if world.requests().filter_map(fence_of).all(|fence| fence > counter) {
        // All later fences are above both.
        world.store.highest = world.store.highest.max(counter);
    }
    let lowest = world.requests().filter_map(fence_of).min().unwrap_or(u8::MAX);
    let lowest = lowest.min(counter).min(world.store.highest);
    for client in &mut world.clients {
        for request in client.waits.iter_mut().chain(client.late.iter_mut().flatten()) {
            if let At::Commits { fence, .. } = &mut request.at
                && request.asks == Asks::Acquire
            {
                *fence -= lowest;
            }
        }
    }
    world.store.counter -= lowest;
    world.store.highest -= lowest;
}

/// Returns true if its commit will fail at any time: a document with a precondition has changed, and no change is
/// undone. Only a lock, not the counter, can be absent again.
fn is_doomed(request: &Request<Firestore>, has_counter: bool, rules: &Rules) -> bool {
    match (request.asks, request.at) {
        (Asks::Acquire, At::Commits { lock, counter, .. }) => {
            let is_moved = counter == OLD || counter == ABSENT && has_counter;
            lock == OLD && !rules.has(Flaw::LockUnguarded)
                || is_moved && !rules.has(Flaw::CounterUnguarded)
        }
        (Asks::Extend { known, .. }, At::Begins) => {
            known.version != NEWEST && !rules.has(Flaw::BlindExtend)
        }
        (Asks::Extend { .. }, At::Commits { lock, .. }) => {
            lock != NEWEST && !rules.has(Flaw::BlindExtend)
        }
        (Asks::Release { known }, At::Begins) => {
            known.version != NEWEST && !rules.has(Flaw::ReleaseUnguarded)
        }
        (Asks::Release { .. }, At::Commits { lock, .. }) => {
            lock != NEWEST && !rules.has(Flaw::ReleaseUnguarded)
        }
        _ => false,
    }
}

pub(super) fn forget(world: &mut World<Firestore>, rules: &Rules) {
    let has_counter = world.store.has_counter;
    let may_lose = world.left.lost > 0;
    // Its knowledge is in the version that its commit states.
    let is_guarded = !rules.has(Flaw::UnguardedCleanUp);
    world.cleaner.take_if(|seen| is_guarded && seen.version != NEWEST);
    if let Some(seen) = &mut world.cleaner {
        seen.expires = 0;
    }
    for client in &mut world.clients {
        for late in &mut client.late {
            late.take_if(|late| is_doomed(late, has_counter, rules));
        }
        if let Some(waits) = client.waits.as_mut().filter(|it| it.answer.is_none()) {
            if is_doomed(waits, has_counter, rules) {
                waits.at = At::Reads;
            }
            if waits.asks == Asks::Acquire && waits.at == At::Reads {
                waits.at = At::Begins;
            }
        }
    }
    if !rules.is_one_tick {
        rebase(world);
    }
    owner_of_what_is_expired(world, rules);
    let (lock, counter) = (world.store.lock, world.store.counter_version());
    for (who, client) in world.clients.iter_mut().enumerate() {
        let now = *client;
        let can_be = |number| {
            lock.is_some_and(|lock| lock.owner == Owner::new(who, number))
                || now.can_acquire(number)
        };
        if let Some(waits) = &mut client.waits
            && !may_lose
            && waits.at == At::Reads
            && matches!(waits.asks, Asks::Release { .. })
            && !can_be(waits.number)
        {
            waits.answer = Some(Answer::NotHeld);
            client.answered(rules, Which::Awaited);
        }
        for job in &mut client.jobs {
            job.take_if(|job| !can_be(job.number));
        }
        requests(client, may_lose);
        for job in client.jobs.iter_mut().flatten() {
            job.sent = 0;
            // No commit of it is left that could succeed.
            job.at.seen.take_if(|seen| counter > *seen);
            job.at.look = job.at.look.and_then(|look| look_at(look, counter));
        }
    }
}

/// The result of a look, if its commit can still succeed. Otherwise the next step is another look.
fn look_at(look: Look, counter: u8) -> Option<Look> {
    match look {
        Look { is_ours: true, lock, .. } => {
            (lock == NEWEST).then_some(Look { is_void: false, counter: ABSENT, ..look })
        }
        Look { is_void: true, .. } => Some(Look { lock: ABSENT, counter: ABSENT, ..look }),
        _ => (look.counter == counter).then_some(Look { lock: ABSENT, ..look }),
    }
}

/// A lock that is over by every clock has no owner, unless a client will extend or release it.
fn owner_of_what_is_expired(world: &mut World<Firestore>, rules: &Rules) {
    let Some(lock) = world.store.lock.filter(|lock| lock.expires + rules.tolerance <= 0) else {
        return;
    };
    let Owner { client, number } = lock.owner;
    if let Some(client) = world.clients.get(usize::from(client)) {
        let mut requests = client.waits.iter().chain(client.late.iter().flatten());
        let extends =
            requests.any(|it| it.number == number && matches!(it.asks, Asks::Extend { .. }));
        let may_hold = match client.phase {
            Phase::Holds { until, .. } => until > 0,
            Phase::Acquires => rules.has(Flaw::PromiseFromReply),
            _ => false,
        };
        let may_extend = client.left == number && may_hold;
        let may_give_back = world.left.lost > 0 && client.sees_to(number)
            || client.jobs.iter().flatten().any(|job| job.number == number);
        if extends || may_extend || may_give_back {
            return;
        }
    }
    if let Some(lock) = &mut world.store.lock {
        lock.owner = Owner::NOBODY;
        lock.expires = rules.expired();
    }
}

/// The send time of a request does not matter; its knowledge is in its commit.
fn requests(client: &mut Client<Firestore>, may_lose: bool) {
    let nothing = Known { version: ABSENT, expires: 0 };
    for late in client.late.iter_mut().flatten() {
        late.sent = 0;
        release_commits(late);
        match &mut late.asks {
            Asks::Extend { ttl, known } => (*ttl, *known) = (0, nothing),
            Asks::Release { known } => *known = nothing,
            Asks::Acquire => {}
        }
    }
    if let Some(waits) = &mut client.waits {
        waits.sent = 0;
        release_commits(waits);
        match &mut waits.asks {
            Asks::Release { known } if may_lose => known.expires = 0,
            Asks::Release { known } => *known = nothing,
            Asks::Extend { known, .. } if !may_lose && waits.answer.is_some() => *known = nothing,
            Asks::Extend { known, .. } if !may_lose && waits.at != At::Begins => {
                known.version = ABSENT;
            }
            _ => {}
        }
    }
}

/// A release begins with its commit, which has only the version.
fn release_commits(request: &mut Request<Firestore>) {
    let Asks::Release { known } = request.asks else { return };
    let lock = match request.at {
        At::Begins => known.version,
        At::Commits { lock, .. } => lock,
        At::Reads => return,
    };
    if request.answer.is_none() {
        request.at = At::Commits { lock, counter: ABSENT, expires: 0, fence: 0 };
    }
}
