//! Signals of releases by other processes, over a connection beside the pool that is open while a task of this
//! process waits.
//!
//! The session holds a shared advisory lock on the number of each key that it watches. A release tries to take the
//! same advisory lock exclusively, and sends a notification only if it does not get it. The advisory lock ends with
//! the session, even if the process dies.

mod plan;
mod pooler;
pub(crate) mod route;
mod session;

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::signals::{SignalHub, SignalLimits};
use syncguard_core::contract::{KeyWatch, SignalStatus};

use self::plan::Plan;
use crate::settings::Settings;

/// The signals of a backend; `None` if the settings have no signals.
#[derive(Debug)]
pub(crate) struct Signals(Option<SignalHub>);

impl Signals {
    /// The limit for the server's answer that a key is watched.
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
            SignalHub::new("postgres", limits, OutageLog::default(), listen)
        }))
    }

    /// Watches a key, given its name in the table. `None` if that is not possible at the moment.
    pub(crate) async fn watch(&self, storage_key: &str) -> Option<KeyWatch> {
        self.0.as_ref()?.watch(storage_key).await
    }

    /// Ends the session: it may listen to a server that is none any more. The next waiter begins another.
    pub(crate) fn close(&self) {
        self.0.as_ref().inspect(|hub| hub.close());
    }

    /// The state of the signals.
    pub(crate) fn status(&self) -> SignalStatus {
        self.0.as_ref().map_or(SignalStatus::Off, SignalHub::status)
    }
}
