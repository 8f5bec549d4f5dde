//! Detects callers of one key that give different numbers of permits.

use std::time::Duration;

use syncguard::{DynBackend, Key};
use tokio::time::timeout;

use crate::commands::parts::permits_from;
use crate::exit::Failure;
use crate::part_key::PERMITS;

/// The longest time for the check. The time to wait for a permit begins afterwards.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Fails if a rival holds a permit above this number. Runs before anything is locked.
///
/// A caller that gives a larger number than its rivals is not detected, nor are rivals that hold
/// lower permits only.
pub(super) async fn check(backend: &DynBackend, key: &Key, permits: u32) -> Result<(), Failure> {
    // A failed check refuses nothing: if the store does not work, the acquire reports it.
    let Ok(Ok(held)) = timeout(TIME_LIMIT, permits_from(permits, backend, key)).await else {
        return Ok(());
    };
    let Some((slot, _)) = held.last() else { return Ok(()) };
    Err(Failure::usage(format!(
        "permit {slot} is held, and --permits {permits} ends at {}: another caller gives a larger number, or has \
         locked that permit's key, KEY{PERMITS}{slot}, by itself. Give the same number everywhere, and wait until the \
         callers with the larger number have ended; nothing was locked",
        permits - 1
    )))
}
