//! The contract, on one member and on more, behind what etcd itself puts before them, and with users.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Harness, Late, Suite};
use syncguard_etcd::{EtcdBackend, EtcdOptions, Fence, Key};
use syncguard_test_services::etcd::EtcdCluster;

use crate::etcd::support::{Raw, fresh, options, shared};
use crate::support::gate::ProxyGate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes() {
    // Most cases wait for an expiry, and do so side by side.
    passes(Etcd::at(shared(), shared().port(0)), 40).await;
}

mod long {
    use syncguard_test_services::etcd::{EtcdBuilder, EtcdCluster};

    use super::{Etcd, passes};

    /// Several of these suites run at the same time.
    const AT_ONCE: usize = 10;

    /// Lives as long as the process, as [`shared`](super::shared) does.
    fn kept(builder: EtcdBuilder, members: usize) -> &'static EtcdCluster {
        Box::leak(Box::new(builder.start(members).expect("members")))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn three_members() {
        let cluster = kept(EtcdCluster::builder(), 3);
        passes(Etcd::at(cluster, cluster.port(1)), AT_ONCE).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn through_a_gateway() {
        let cluster = kept(EtcdCluster::builder(), 3);
        let proxy = cluster.behind("gateway").expect("a gateway");
        passes(Etcd::at(cluster, proxy.port()), AT_ONCE).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn through_a_grpc_proxy() {
        let cluster = kept(EtcdCluster::builder(), 1);
        let proxy = cluster.behind("grpc-proxy").expect("a proxy");
        passes(Etcd::at(cluster, proxy.port()), AT_ONCE).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn with_simple_tokens() {
        passes(Etcd::with_users(kept(EtcdCluster::builder(), 1)), AT_ONCE).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn with_tokens_that_end() {
        let secret = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(secret.path(), "any bytes").expect("a secret");
        let file = secret.path().display();
        let token = format!("--auth-token=jwt,priv-key={file},sign-method=HS256,ttl=10s");
        passes(Etcd::with_users(kept(EtcdCluster::builder().flag(token), 1)), AT_ONCE).await;
    }
}

async fn passes(harness: Etcd, at_once: usize) {
    let report = Suite::new().at_once(at_once).run(harness).await;
    assert!(report.is_success(), "{report}");
}

struct Etcd {
    cluster: &'static EtcdCluster,
    /// Where backends connect to.
    port: u16,
    login: &'static str,
    prefix: String,
    connected: AtomicUsize,
}

impl Etcd {
    fn at(cluster: &'static EtcdCluster, port: u16) -> Self {
        Self { cluster, port, login: "", prefix: fresh(), connected: AtomicUsize::new(0) }
    }

    fn with_users(cluster: &'static EtcdCluster) -> Self {
        cluster.enable_users("hunter2").expect("users");
        Self { login: "root:hunter2@", ..Self::at(cluster, cluster.port(0)) }
    }

    async fn backend(&self, port: u16, options: EtcdOptions) -> EtcdBackend {
        let url = format!("etcd://{}127.0.0.1:{port}/{}", self.login, self.prefix);
        EtcdBackend::connect_with(&url, options).await.expect("a backend")
    }

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
        self.backend(self.port, options).await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        let name = format!("{}/f/{}", self.prefix, key.expose());
        Raw(self.cluster).put(&name, &last.to_string());
    }

    async fn connect_late(&self) -> Option<Late<EtcdBackend>> {
        const LIMIT: Duration = Duration::from_secs(4);
        const SLACK: Duration = Duration::from_millis(500);
        // A login is a request, too, which the gate takes for the late one.
        if !self.login.is_empty() {
            return None;
        }
        let (gate, port) = ProxyGate::start(self.port);
        let (_, remembered) = self.kind();
        let options = options().with_remembered_locks(remembered).without_clock_probe();
        let options = options.with_request_timeout(LIMIT).with_operation_timeout(LIMIT);
        // There is no time for another try, which would go over a new connection.
        // Without a memory each operation reads first, and its transaction is the late request.
        let gate = gate.after(u64::from(remembered == 0));
        let backend = self.backend(port, options).await;
        Some(Late::new(backend, LIMIT + SLACK, gate))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let name = format!("{}/l/{}", self.prefix, key.expose());
        Raw(self.cluster).put(&name, r#"{"fence":"not a fence"}"#);
        true
    }
}
