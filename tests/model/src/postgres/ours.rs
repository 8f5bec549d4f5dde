//! The statements of this library.

use super::{
    Answer, Asks, At, Begun, Flaw, Owner, Postgres, Request, Row, Rules, Which, World, Write,
    Written, done, row_is_free, to, turn_is_free,
};

pub(super) fn advance(
    world: &mut World<Postgres>,
    rules: &Rules,
    (who, which): (usize, Which),
    owner: Owner,
    request: &Request<Postgres>,
) -> bool {
    let next = match (request.asks, request.at) {
        (Asks::Acquire, At::Sent) => acquire_begins(world, rules, owner),
        (Asks::Acquire, At::Begun(begun)) if turn_is_free(world) => {
            acquire_writes(world, rules, owner, request, begun)
        }
        (Asks::Extend { ttl, known }, _) => extend(world, rules, owner, request, (ttl, known)),
        (Asks::Release { .. }, _) => release(world, rules, owner, request),
        _ => None,
    };
    match next {
        None => false,
        Some(Next::At(at)) => to(world, who, which, at),
        Some(Next::Answer(answer)) => done(world, who, which, answer),
    }
}

enum Next {
    At(At),
    Answer(Answer<Postgres>),
}

fn begun(world: &World<Postgres>) -> Begun {
    let store = &world.store;
    Begun { at: 0, saw_row: store.row.is_some(), counter: store.counter }
}

fn written(write: Write, has_turn: bool) -> Option<Next> {
    Some(Next::At(At::Written(Written { write, has_turn, has_row: true })))
}

/// `stored` and `counter`: the snapshot. A contended acquire ends here. `acquire.rs`, `decide`: a live lock with our
/// id is ours.
fn acquire_begins(world: &World<Postgres>, rules: &Rules, owner: Owner) -> Option<Next> {
    let live = world.store.row.filter(|row| row.is_live(rules, 0));
    Some(match live {
        Some(row) if row.owner == owner && !rules.has(Flaw::NotIdempotent) => {
            Next::Answer(Answer::Granted(row.expires))
        }
        Some(_) => Next::Answer(Answer::Locked),
        // A tick is taken.
        None if rules.is_taken(world.store.counter) => Next::Answer(Answer::Locked),
        None => Next::At(At::Begun(begun(world))),
    })
}

/// `turn`, `expired`, `time`, `numbered` and `taken`, at the moment after the last wait. Until then the statement has
/// no lock here, although it may have the advisory one: in the model others may come first that could not in reality,
/// and none is kept out that could come.
fn acquire_writes(
    world: &World<Postgres>,
    rules: &Rules,
    owner: Owner,
    request: &Request<Postgres>,
    begun: Begun,
) -> Option<Next> {
    let locks_row = !rules.has(Flaw::MissingRowLock);
    let row = world.store.row;
    // The writer of the row finishes first, for a read and for a write.
    if !row_is_free(world) {
        return None;
    }
    let expired = row.filter(|row| !row.is_live(rules, 0));
    if begun.saw_row && locks_row && expired.is_none() {
        // The row was extended, deleted or taken meanwhile.
        return Some(Next::Answer(Answer::Locked));
    }
    let time = if rules.has(Flaw::StaleNow) { begun.at } else { 0 };
    if time > request.sent + rules.bound && !rules.has(Flaw::NoDeadline) {
        return Some(Next::Answer(Answer::Late));
    }
    if world.store.counter != begun.counter && !rules.has(Flaw::CounterNotCompared) {
        return Some(Next::Answer(Answer::Locked));
    }
    if locks_row && row.is_some_and(|row| row.is_live(rules, 0)) {
        return written(Write::OnlyCounter, true);
    }
    let row = Row { owner, expires: time + rules.ttl, is_revived: false };
    written(Write::Insert { row, fence: world.store.counter + 1 }, true)
}

/// `turn`, `held`, `clock` and `extended`, at the moment after the last wait.
///
/// If the snapshot has nothing to extend, the answer is the same and comes sooner; its caller stops relying on the
/// lock.
fn extend(
    world: &World<Postgres>,
    rules: &Rules,
    owner: Owner,
    request: &Request<Postgres>,
    (ttl, known): (i8, i8),
) -> Option<Next> {
    let held = world.store.row.filter(|row| row.owner == owner && row.is_live(rules, 0));
    // A lock that lives until the deadline does not wait for the advisory lock.
    let is_early = held.is_some_and(|held| held.expires >= request.sent + rules.bound);
    let waits = !is_early && !rules.has(Flaw::ExtendWithoutTurn);
    let has_turn = waits || is_early && turn_is_free(world);
    if !row_is_free(world) || waits && !turn_is_free(world) {
        return None;
    }
    let Some(held) = held else { return Some(Next::Answer(Answer::NotHeld)) };
    if 0 > request.sent + rules.bound && !rules.has(Flaw::NoDeadline) {
        return Some(Next::Answer(Answer::Late));
    }
    if held.expires != known && !rules.has(Flaw::BlindExtend) {
        return Some(Next::Answer(Answer::Mismatch(held.expires)));
    }
    let is_same = held.expires == ttl && !rules.has(Flaw::SameExpiry);
    written(Write::Expiry(ttl + i8::from(is_same)), has_turn)
}

/// If the snapshot has no live row, that is the answer, also while another transaction writes the row. Otherwise the
/// row counts after its writer has finished: it has another id if it was taken over.
fn release(
    world: &World<Postgres>,
    rules: &Rules,
    owner: Owner,
    request: &Request<Postgres>,
) -> Option<Next> {
    if 0 > request.sent + rules.bound && !rules.has(Flaw::NoDeadline) {
        return Some(Next::Answer(Answer::Late));
    }
    let is_ours = |row: &Row| row.owner == owner || rules.has(Flaw::ReleaseOfAnyone);
    match world.store.row {
        Some(row) if is_ours(&row) && row.is_live(rules, 0) => {
            row_is_free(world).then(|| written(Write::Delete, false)).flatten()
        }
        _ => Some(Next::Answer(Answer::NotHeld)),
    }
}
