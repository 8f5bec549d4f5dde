//! Hearing of releases by other processes: a connection beside the pool, which is there while somebody
//! of this process waits.
//!
//! A session holds an advisory lock on the number of each key that it watches, shared. A release tries the same
//! lock exclusively, and says something only if it does not get it. The number goes away with the session, whatever
//! becomes of the process.

mod plan;
mod route;
mod session;

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::Episode;
use syncguard_core::authoring::signals::{SignalHub, SignalLimits};
use syncguard_core::contract::{KeyWatch, SignalStatus};

use self::plan::Plan;
pub(crate) use self::route::{Route, SignalOptions};
use crate::settings::Settings;

/// The signals of a backend; `None`: there are none with these settings.
#[derive(Debug)]
pub(crate) struct Signals(Option<SignalHub>);

impl Signals {
    /// The longest to wait for the server's word that a key is watched.
    const LONGEST_WAIT: Duration = Duration::from_millis(400);

    pub(crate) fn new(settings: &Settings) -> Self {
        Self(Plan::new(settings).map(|plan| {
            let limits = SignalLimits {
                open: plan.connect + plan.statement,
                step: plan.statement,
                confirm: Self::LONGEST_WAIT,
            };
            let plan = Arc::new(plan);
            let listen = move |subscriptions| session::listen(Arc::clone(&plan), subscriptions);
            SignalHub::new("postgres", limits, Episode::default(), listen)
        }))
    }

    /// Watches a key, whose name in the table this is. `None` if that is not possible at the moment.
    pub(crate) async fn watch(&self, storage_key: &str) -> Option<KeyWatch> {
        self.0.as_ref()?.watch(storage_key).await
    }

    /// Whether they are heard.
    pub(crate) fn status(&self) -> SignalStatus {
        self.0.as_ref().map_or(SignalStatus::Off, SignalHub::status)
    }
}
