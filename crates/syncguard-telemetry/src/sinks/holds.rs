//! How long the locks of this process have been held so far.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use opentelemetry::KeyValue;
use syncguard_core::LockId;

/// The holds of all backends: two backends with the same attributes have one series.
static HOLDS: LazyLock<Mutex<HashMap<LockId, Hold>>> = LazyLock::new(Mutex::default);

struct Hold {
    since: Instant,
    of_lock: Vec<KeyValue>,
}

pub(super) fn begin(lock_id: LockId, of_lock: Vec<KeyValue>) {
    let hold = Hold { since: Instant::now(), of_lock };
    HOLDS.lock().unwrap_or_else(PoisonError::into_inner).insert(lock_id, hold);
}

pub(super) fn end(lock_id: LockId) {
    HOLDS.lock().unwrap_or_else(PoisonError::into_inner).remove(&lock_id);
}

/// Tells the age of the oldest hold in seconds for each of these attributes, zero if there is no hold.
pub(super) fn tell_oldest(all: &HashSet<Vec<KeyValue>>, tell: impl Fn(f64, &[KeyValue])) {
    let mut oldest: HashMap<&[KeyValue], Instant> = HashMap::new();
    let holds = HOLDS.lock().unwrap_or_else(PoisonError::into_inner);
    for hold in holds.values() {
        let since = oldest.entry(&hold.of_lock).or_insert(hold.since);
        *since = hold.since.min(*since);
    }
    for of_lock in all {
        let age = oldest.get(of_lock.as_slice()).map(Instant::elapsed);
        tell(age.unwrap_or_default().as_secs_f64(), of_lock);
    }
}
