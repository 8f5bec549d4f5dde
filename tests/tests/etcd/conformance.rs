//! The contract, on one member.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Harness, Late, Suite};
use syncguard_etcd::{EtcdBackend, Fence, Key};

use crate::etcd::support::{Raw, backend_at, backend_with, fresh, options, shared};
use crate::support::gate::ProxyGate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes() {
    let harness = Etcd { prefix: fresh(), connected: AtomicUsize::new(0) };
    // Most cases wait for an expiry, and do so side by side.
    let report = Suite::new().at_once(40).run(harness).await;
    assert!(report.is_success(), "{report}");
}

struct Etcd {
    prefix: String,
    connected: AtomicUsize,
}

impl Etcd {
    /// Half of the handles remove expired locks, and half remember no locks, which no case may notice.
    fn kind(&self) -> (bool, usize) {
        let number = self.connected.fetch_add(1, Ordering::Relaxed);
        (number % 2 == 1, if number % 4 < 2 { 100 } else { 0 })
    }
}

impl Harness for Etcd {
    type Backend = EtcdBackend;

    async fn connect(&self) -> EtcdBackend {
        let (cleanup, remembered) = self.kind();
        let options = options().with_cleanup_in_is_locked(cleanup);
        // A new backend knows the members' time to within a second, and so finds locks over too late for the cases.
        let options = options.with_remembered_locks(remembered).without_clock_probe();
        backend_with(&self.prefix, options).await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        let name = format!("{}/f/{}", self.prefix, key.expose());
        Raw(shared()).put(&name, &last.to_string());
    }

    async fn connect_late(&self) -> Option<Late<EtcdBackend>> {
        const LIMIT: Duration = Duration::from_secs(4);
        const SLACK: Duration = Duration::from_millis(500);
        let (gate, port) = ProxyGate::start(shared().port(0));
        let (_, remembered) = self.kind();
        let options = options().with_remembered_locks(remembered).without_clock_probe();
        let options = options.with_request_timeout(LIMIT).with_operation_timeout(LIMIT);
        // There is no time for another try, which would go over a new connection.
        // Without a memory each operation reads first, and its transaction is the late request.
        let gate = gate.after(u64::from(remembered == 0));
        let backend = backend_at(port, &self.prefix, options).await;
        Some(Late::new(backend, LIMIT + SLACK, gate))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let name = format!("{}/l/{}", self.prefix, key.expose());
        Raw(shared()).put(&name, r#"{"fence":"not a fence"}"#);
        true
    }
}
