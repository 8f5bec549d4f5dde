//! Faults of the server itself, one at a time.

mod actions;
mod cluster;
mod etcd;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_history::{Entry, Fault, Random, Recorder};

use crate::store::Store;

pub(super) struct Action {
    pub(super) fault: Fault,
    /// The pause before the next fault, in milliseconds.
    pub(super) every: (u64, u64),
    /// True if no call is served meanwhile.
    pub(super) takes_away: bool,
    pub(super) run: fn(&Store, &mut Random) -> Result<()>,
}

/// Runs the faults of this server until `stop`, and leaves the server in order.
pub(crate) fn break_until(
    store: &Store,
    recorder: &Recorder,
    mut random: Random,
    stop: &AtomicBool,
) -> Result<()> {
    let now = Instant::now();
    let due = |action| (action, now + random.millis(1500, 5000));
    let mut actions: Vec<(Action, Instant)> =
        actions::for_store(store).into_iter().map(due).collect();
    while !stop.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(5));
        let now = Instant::now();
        let Some((action, due)) = actions.iter_mut().find(|(_, due)| *due <= now) else { continue };
        recorder.note(Entry::Fault(action.fault));
        (action.run)(store, &mut random).with_context(|| format!("{:?}", action.fault))?;
        *due = Instant::now() + random.millis(action.every.0, action.every.1);
        if action.takes_away {
            recorder.note(Entry::Healed);
            // The service has to be back before the next fault.
            let calm = Instant::now() + Duration::from_secs(3);
            for (_, due) in actions.iter_mut().filter(|(action, _)| action.takes_away) {
                *due = (*due).max(calm);
            }
        }
    }
    Ok(())
}
