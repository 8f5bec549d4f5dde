//! Signals: a `Listen` stream reports that a lock's document was deleted, while waiters watch it.

mod session;
mod targets;

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::signals::{SignalHub, SignalLimits};

use self::session::Session;
use crate::clock::Clock;
use crate::service::Service;

/// Makes the signal hub of a backend. `timeout` is how long the server may take to confirm a watch.
pub(crate) fn hub(
    service: Service,
    database: String,
    clock: Arc<Clock>,
    timeout: Duration,
) -> SignalHub {
    let limits = SignalLimits { open: timeout, step: timeout, confirm: timeout };
    let listen = move |subscriptions| {
        let session = Session::new(subscriptions, database.clone(), Arc::clone(&clock), timeout);
        session.listen(service.clone())
    };
    SignalHub::new("firestore", limits, OutageLog::default(), listen)
}
