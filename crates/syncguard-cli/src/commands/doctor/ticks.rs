//! Examines the counters of ticks.

use std::time::{Duration, SystemTime};

use syncguard::recipes::{Schedule, Ticks};
use syncguard::{DynBackend, Timestamp};

use super::finding::Finding;
use crate::commands::listing;
use crate::time::human;

/// Other programs may share the store, with so many records that nobody waits for the end of a listing.
const LONGEST: Duration = Duration::from_secs(5);

/// The keys whose last tick is in the future, because a clock was wrong when it began.
pub(super) async fn findings(backend: &DynBackend) -> Vec<Finding> {
    tokio::time::timeout(LONGEST, examined(backend)).await.ok().flatten().unwrap_or_default()
}

async fn examined(backend: &DynBackend) -> Option<Vec<Finding>> {
    let now = Timestamp::from_system_time(SystemTime::now()).ok()?.as_millis();
    let mut keys = Vec::new();
    let take = |counter: syncguard::inventory::FenceCounter| {
        // The fences of a tick are its time in milliseconds, which plain locks do not reach.
        if counter.last.get() > now {
            keys.push(counter.key.expose().to_owned());
        }
    };
    listing::counters(backend, take).await.ok()?;
    let schedule = Schedule::every(Duration::from_secs(60)).ok()?;
    let mut findings = Vec::new();
    for key in keys {
        let ticks = Ticks::new(backend.clone(), key.as_str(), schedule.clone());
        let status = ticks.status().await.ok()?;
        let Some(ahead) = status.ahead() else { continue };
        let says = format!(
            "the last tick of the key {key:?} is {} ahead of the store's clock, since a clock was wrong when it began: no \
             tick of the key begins until then",
            human(ahead)
        );
        findings.push(Finding::yellow(
            "ticks",
            says,
            "wait, or give all its processes another key",
        ));
    }
    Some(findings)
}
