//! etcd, tonic and their dependencies.

use std::time::Duration;

use syncguard_etcd::{EtcdBackend, EtcdOptions};
use syncguard_test_services::etcd::EtcdCluster;

use crate::etcd_support::{Raw, backend_with, fresh, options, shared, width};
use crate::net::Net;
use crate::scenario::{
    Change, Handles, all_fail, locks, narrow, nothing_was_given_away, secret, suite,
};
use crate::watched::watched;

pub(crate) async fn says_nothing() {
    let net = Net::global();
    let prefix = fresh();
    let mut handles = Vec::new();
    for cleanup in [true, false] {
        let options = options().with_cleanup_in_is_locked(cleanup);
        let backend = backend_with(&prefix, options).await;
        handles.push(narrow(backend, width, 100, Duration::from_secs(120)).await);
    }
    let of_records = prefix.clone();
    let change = move |key: &str, change| {
        match change {
            Change::Counter(last) => {
                Raw(shared()).put(&format!("{of_records}/f/{key}"), &last.to_string());
            }
            Change::Spoilt => Raw(shared()).put(&format!("{of_records}/l/{key}"), "not a lock"),
        }
        true
    };
    suite(Handles::new(handles, change)).await;
    let backend = backend_with(&prefix, options()).await;
    net.read("a backend", &format!("{backend:?} {:?}", options()));
    locks(&watched(net, backend)).await;

    // A user with a password, and one with a wrong password.
    let cluster = EtcdCluster::start(1).expect("an etcd server");
    let password = secret();
    cluster.enable_users(&password).expect("users");
    let as_root = async |password: &str| {
        let options = options().with_user("root", password);
        net.read("options", &format!("{options:?}"));
        EtcdBackend::connect_with(&cluster.url(), options).await.expect("a backend")
    };
    locks(&watched(net, as_root(&password).await)).await;
    all_fail(&watched(net, as_root(&secret()).await)).await;

    // A port without a server.
    let timeout = Duration::from_millis(500);
    let impatient =
        EtcdOptions::new().with_operation_timeout(timeout).with_request_timeout(timeout);
    let nobody = format!("etcd://{}:{}@127.0.0.1:1", secret(), secret());
    let backend = EtcdBackend::connect_with(&nobody, impatient).await.expect("a backend");
    all_fail(&watched(net, backend)).await;
    nothing_was_given_away(&["h2", "hyper", "tonic", "tower"]).await;
}
