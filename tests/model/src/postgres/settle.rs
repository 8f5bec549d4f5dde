//! Clean-up in the background.

use super::{Cleaning, Flaw, Owner, Postgres, Rules, World};
use super::{row_is_free, turn_is_free};

/// `settle.rs`: two looks, one after the other. The second look counts if the first found no acquire of the key in
/// progress and its deadline was over. A job that only repeats a release is one look.
///
/// A look is two steps: its snapshot, and then the advisory lock and the time.
pub(super) fn settle(
    world: &mut World<Postgres>,
    rules: &Rules,
    who: usize,
    job: usize,
) -> Option<bool> {
    let this = world.clients[who].jobs[job]?;
    let owner = Owner::new(who, this.number);
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

/// `cleanup.sql`: checks the row again, and skips a row in use.
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
