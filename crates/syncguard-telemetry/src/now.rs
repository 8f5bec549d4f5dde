//! How many wait and how many hold right now.

use std::sync::Arc;

use syncguard_core::Key;
use syncguard_core::observe::Observation;

/// One more or one less.
#[cfg_attr(not(feature = "opentelemetry"), expect(dead_code, reason = "metrics alone read it"))]
pub(crate) struct Change {
    pub(crate) backend: &'static str,
    pub(crate) key_family: Option<Arc<str>>,
    pub(crate) recipe: Option<&'static str>,
    pub(crate) what: Counted,
    pub(crate) by: i64,
}

#[derive(Clone, Copy)]
pub(crate) enum Counted {
    Waiting,
    Holding,
}

impl Change {
    /// `None` for what a later version of the core may tell.
    pub(crate) fn of(
        observation: &Observation,
    ) -> Option<(&Key, Option<&'static str>, Counted, i64)> {
        match observation {
            Observation::AcquisitionBegan(began) => {
                Some((&began.key, began.recipe, Counted::Waiting, 1))
            }
            Observation::Acquisition(ended) => {
                Some((&ended.key, ended.recipe, Counted::Waiting, -1))
            }
            Observation::HoldBegan(began) => Some((&began.key, began.recipe, Counted::Holding, 1)),
            Observation::Hold(ended) => Some((&ended.key, ended.recipe, Counted::Holding, -1)),
            _ => None,
        }
    }
}
