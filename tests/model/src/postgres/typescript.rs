//! The transactions of the TypeScript library: the time is that of their beginning; acquire reads the
//! row without a lock, and writes whatever it has become, under the advisory lock; extend and release
//! lock the row, and know nothing of the advisory lock.

use super::forget::EARLIER;
use super::{
    Answer, Asks, At, Begun, Owner, Postgres, Request, Row, Rules, Which, World, Write, Written,
    done, row_is_free, to, turn_is_free,
};

pub(super) fn advance(
    world: &mut World<Postgres>,
    rules: &Rules,
    (who, which): (usize, Which),
    owner: Owner,
    request: &Request<Postgres>,
) -> bool {
    let store = world.store;
    match (request.asks, request.at) {
        (_, At::Sent) => {
            let begun = Begun { at: 0, saw_row: false, counter: EARLIER };
            to(world, who, which, At::Begun(begun))
        }
        // `read`: the advisory lock, and then the row as it is committed.
        (Asks::Acquire, At::Begun(begun)) => {
            if !turn_is_free(world) {
                return false;
            }
            if store.row.is_some_and(|row| row.is_live(rules, begun.at)) {
                return done(world, who, which, Answer::Locked);
            }
            to(world, who, which, At::HasTurn(begun))
        }
        // `write`: the counter, and the row whatever it has become.
        (Asks::Acquire, At::HasTurn(begun)) => {
            let row = Row { owner, expires: begun.at + rules.ttl, is_revived: false };
            let write = Write::Insert { row, fence: store.counter + 1 };
            row_is_free(world) && has_written(world, (who, which), write, true)
        }
        // `find`: the row, once nobody else writes it.
        (Asks::Extend { .. } | Asks::Release { .. }, At::Begun(begun)) => {
            if !row_is_free(world) {
                return false;
            }
            let held = store.row.filter(|row| row.owner == owner && row.is_live(rules, begun.at));
            match (held, request.asks) {
                (None, _) => done(world, who, which, Answer::NotHeld),
                (Some(_), Asks::Extend { ttl, .. }) => {
                    let write = Write::Expiry(begun.at + ttl);
                    has_written(world, (who, which), write, false)
                }
                _ => has_written(world, (who, which), Write::Delete, false),
            }
        }
        _ => false,
    }
}

fn has_written(
    world: &mut World<Postgres>,
    (who, which): (usize, Which),
    write: Write,
    has_turn: bool,
) -> bool {
    to(world, who, which, At::Written(Written { write, has_turn, has_row: true }))
}
