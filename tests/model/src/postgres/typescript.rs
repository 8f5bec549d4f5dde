//! The transactions of the TypeScript library. Their time is that of their start. Acquire reads the row without a
//! lock, and overwrites its current state under the advisory lock. Extend and release lock the row, and do not use
//! the advisory lock.

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
        // `read`: the advisory lock, then the committed row.
        (Asks::Acquire, At::Begun(begun)) => {
            if !turn_is_free(world) {
                return false;
            }
            if store.row.is_some_and(|row| row.is_live(rules, begun.at)) {
                return done(world, who, which, Answer::Locked);
            }
            to(world, who, which, At::HasTurn(begun))
        }
        // `write`: the counter, and the row in its current state.
        (Asks::Acquire, At::HasTurn(begun)) => {
            let row = Row { owner, expires: begun.at + rules.ttl, is_revived: false };
            let write = Write::Insert { row, fence: store.counter + 1 };
            row_is_free(world) && has_written(world, (who, which), write, true)
        }
        // `find`: the row, after its writer has finished.
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
