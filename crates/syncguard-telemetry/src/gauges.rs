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
        match observation {
            Observation::AcquisitionBegan(began) => {
                Some((&began.key, began.recipe, Gauge::Waiters, 1, began.lock_id))
            }
            Observation::Acquisition(ended) => {
                Some((&ended.key, ended.recipe, Gauge::Waiters, -1, ended.lock_id))
            }
            Observation::HoldBegan(began) => {
                Some((&began.key, began.recipe, Gauge::Holders, 1, began.lock_id))
            }
            Observation::Hold(ended) => {
                Some((&ended.key, ended.recipe, Gauge::Holders, -1, ended.lock_id))
            }
            _ => None,
        }
    }
}
