//! A connection to a real server that can be late, through a proxy of its own.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use syncguard_conformance::RequestGate;
use syncguard_test_services::proxy::{FaultProxy, Hold};

/// Holds the requests through a proxy.
pub(crate) struct ProxyGate {
    pub(crate) proxy: Arc<FaultProxy>,
    /// The number of round trips before one is held back.
    skips: u64,
}

impl ProxyGate {
    /// A gate to the server on this port of 127.0.0.1, and the port of the gate.
    pub(crate) fn start(upstream: u16) -> (Self, u16) {
        let proxy = FaultProxy::start(upstream).expect("a proxy");
        let port = proxy.port();
        (Self { proxy: Arc::new(proxy), skips: 0 }, port)
    }

    /// Holds back the request after this many round trips: for operations whose first request only reads.
    #[allow(dead_code, reason = "not every store has such operations")]
    pub(crate) fn after(self, skips: u64) -> Self {
        Self { skips, ..self }
    }
}

/// Replies are so slow that there is time to check in between.
const DELAY: Duration = Duration::from_millis(100);

impl RequestGate for ProxyGate {
    fn hold(&self) {
        if self.skips == 0 {
            return self.proxy.hold(Hold::Open);
        }
        self.proxy.set_latency(Duration::ZERO, DELAY);
        let (proxy, first) = (Arc::clone(&self.proxy), self.proxy.counters().flights);
        let last = first + self.skips;
        thread::spawn(move || {
            // After ten seconds nothing was sent.
            for _ in 0..10_000 {
                if proxy.counters().flights >= last {
                    proxy.hold(Hold::Open);
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            proxy.set_latency(Duration::ZERO, Duration::ZERO);
        });
    }

    fn holds(&self) -> bool {
        self.proxy.held() > 0
    }

    fn cut(&self) {
        self.proxy.sever_clients();
    }

    fn deliver(&self) {
        self.proxy.hold(Hold::None);
        self.proxy.deliver();
    }
}
