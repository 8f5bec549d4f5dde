//! A backend and its simulated server on the machine's time, without faults, to be compared with the real server.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::{DynBackend, Fence, LockBackend, forward};
use syncguard_history::{Clock, Recorder};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::link::Link;
use crate::network::{Net, Odds};
use crate::plan::Store;
use crate::server::Server;

/// A backend with a simulated server of its own.
#[derive(Clone)]
pub struct Direct {
    inner: DynBackend,
    net: Net,
    _pump: Arc<Pump>,
}

/// Carries messages, until it is dropped.
struct Pump(JoinHandle<()>);

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Direct").field(&self.inner).finish()
    }
}

impl Direct {
    /// A backend with a new server. Its messages travel while the runtime of this call runs.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let recorder = Recorder::in_memory(Clock::Machine);
        let net = Net::new(1, Odds::NONE, 1, Server::of(store, 1, None), recorder, None);
        let link = Arc::new(Link::exact(net.clone()));
        let inner = store.backend(&link);
        let pump = tokio::spawn(async move {
            loop {
                link.network().run(link.now());
                sleep(Duration::from_millis(1)).await;
            }
        });
        Self { inner, net, _pump: Arc::new(Pump(pump)) }
    }

    /// Holds the next write back, so its sender gets no answer.
    pub fn hold_next(&self) {
        self.net.state().hold_next();
    }

    /// Delivers the write that was held back. Returns true if there was one.
    #[must_use]
    pub fn deliver(&self) -> bool {
        self.net.state().deliver()
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Direct {
    type Fence = Fence;

    forward!(inner: acquire, release, extend, is_locked, lookup);
    forward!(inner: watch, health, inventory, capabilities, client_state);
}
