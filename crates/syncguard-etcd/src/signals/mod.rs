//! Signals: a watch reports that a lock was deleted, while waiters wait for it.

mod session;

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::signals::{SignalHub, SignalLimits};

use self::session::Session;
use crate::client::Client;

/// Makes the signal hub of a backend. `timeout` is how long the server may take to confirm a watch.
pub(crate) fn hub(client: Arc<Client>, timeout: Duration) -> SignalHub {
    let limits = SignalLimits { open: timeout, step: timeout, confirm: timeout };
    let listen =
        move |subscriptions| Session::new(subscriptions, timeout).listen(Arc::clone(&client));
    SignalHub::new("etcd", limits, OutageLog::default(), listen)
}
