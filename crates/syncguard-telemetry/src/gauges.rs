//! Changes of the numbers of waiters and holders.

use std::sync::Arc;

use syncguard_core::observe::{Observation, ObservedEvent};
use syncguard_core::{Key, LockId};

/// A gauge goes up or down by one.
#[cfg_attr(not(feature = "opentelemetry"), expect(dead_code, reason = "metrics alone read it"))]
pub(crate) struct GaugeChange {
    pub(crate) backend: &'static str,
    pub(crate) key_family: Option<Arc<str>>,
    pub(crate) recipe: Option<&'static str>,
    pub(crate) gauge: Gauge,
    pub(crate) by: i64,
    /// The id of the lock that is held or asked for.
    pub(crate) lock_id: LockId,
}

#[derive(Clone, Copy)]
pub(crate) enum Gauge {
    Waiters,
    Holders,
}

impl GaugeChange {
    /// `None` for an observation of a later version of the core.
    pub(crate) fn of(
        observation: &Observation,
    ) -> Option<(&Key, Option<&'static str>, Gauge, i64, LockId)> {
        let (gauge, by) = match observation.event {
            ObservedEvent::AcquisitionBegan => (Gauge::Waiters, 1),
            ObservedEvent::Acquisition { .. } => (Gauge::Waiters, -1),
            ObservedEvent::HoldBegan => (Gauge::Holders, 1),
            ObservedEvent::Hold { .. } => (Gauge::Holders, -1),
            _ => return None,
        };
        Some((&observation.key, observation.recipe, gauge, by, observation.lock_id))
    }
}
