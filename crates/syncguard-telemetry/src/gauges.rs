//! Changes of the numbers of waiters and holders.

use std::sync::Arc;

use syncguard_core::observe::Observation;
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
        Some(match observation {
            Observation::AcquisitionBegan(it) => {
                (&it.key, it.recipe, Gauge::Waiters, 1, it.lock_id)
            }
            Observation::Acquisition(it) => (&it.key, it.recipe, Gauge::Waiters, -1, it.lock_id),
            Observation::HoldBegan(it) => (&it.key, it.recipe, Gauge::Holders, 1, it.lock_id),
            Observation::Hold(it) => (&it.key, it.recipe, Gauge::Holders, -1, it.lock_id),
            _ => return None,
        })
    }
}
