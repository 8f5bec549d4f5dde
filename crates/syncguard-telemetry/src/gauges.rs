//! Changes of the numbers of waiters and holders.

use std::sync::Arc;

use syncguard_core::Key;
use syncguard_core::observe::Observation;

/// A gauge goes up or down by one.
#[cfg_attr(not(feature = "opentelemetry"), expect(dead_code, reason = "metrics alone read it"))]
pub(crate) struct GaugeChange {
    pub(crate) backend: &'static str,
    pub(crate) key_family: Option<Arc<str>>,
    pub(crate) recipe: Option<&'static str>,
    pub(crate) gauge: Gauge,
    pub(crate) by: i64,
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
    ) -> Option<(&Key, Option<&'static str>, Gauge, i64)> {
        match observation {
            Observation::AcquisitionBegan(began) => {
                Some((&began.key, began.recipe, Gauge::Waiters, 1))
            }
            Observation::Acquisition(ended) => Some((&ended.key, ended.recipe, Gauge::Waiters, -1)),
            Observation::HoldBegan(began) => Some((&began.key, began.recipe, Gauge::Holders, 1)),
            Observation::Hold(ended) => Some((&ended.key, ended.recipe, Gauge::Holders, -1)),
            _ => None,
        }
    }
}
