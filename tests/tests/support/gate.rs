//! A connection to a real server that can be late, through a proxy of its own.

use syncguard_conformance::RequestGate;
use syncguard_test_services::proxy::{FaultProxy, Hold};

/// Holds the requests through a proxy.
pub(crate) struct ProxyGate {
    pub(crate) proxy: FaultProxy,
    which: Hold,
}

impl ProxyGate {
    /// A gate to the server on this port of 127.0.0.1, and the port of the gate.
    pub(crate) fn start(upstream: u16) -> (Self, u16) {
        let proxy = FaultProxy::start(upstream).expect("a proxy");
        let port = proxy.port();
        (Self { proxy, which: Hold::Open }, port)
    }

    /// Holds back the request after this many round trips: for operations whose first request only reads.
    #[allow(dead_code, reason = "not every store has such operations")]
    pub(crate) fn after(self, skips: u64) -> Self {
        let which = if skips == 0 { Hold::Open } else { Hold::After(skips) };
        Self { which, ..self }
    }
}

impl RequestGate for ProxyGate {
    fn hold(&self) {
        self.proxy.hold(self.which);
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
