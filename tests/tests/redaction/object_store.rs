//! A bucket, the crate `object_store`, reqwest and their dependencies.

use std::time::Duration;

use syncguard_object_store::ObjectStoreBackend;
use syncguard_test_services::azurite::{AzuriteServer, CONTAINER};
use tokio::runtime::Handle;

use crate::net::Net;
use crate::object_store_support::{Raw, backend_at, fresh, options, shared};
use crate::scenario::{
    Change, Handles, all_fail, locks, narrow, nothing_was_given_away, secret, suite,
};
use crate::watched::watched;

/// The width of the bounds in which a backend knows the time, in milliseconds.
fn width(backend: &ObjectStoreBackend) -> i64 {
    backend.clock_drift().map_or(i64::MAX, |drift| drift.highest - drift.lowest)
}

pub(crate) async fn says_nothing() {
    let net = Net::global();
    let (prefix, port) = (fresh(), shared().port());
    let mut handles = Vec::new();
    for cleanup in [true, false] {
        let options = options().with_cleanup_in_is_locked(cleanup);
        let backend = backend_at(port, &prefix, options).await;
        handles.push(narrow(backend, width, 200, Duration::from_secs(150)).await);
    }
    let (of_records, runtime) = (prefix.clone(), Handle::current());
    let change = move |key: &str, change| {
        let fields = match change {
            Change::Counter(last) => format!(r#""fence":"{last}""#),
            Change::Spoilt => r#""fence":"000000000000001","lock":{}"#.to_owned(),
        };
        let raw = Raw::new();
        let write = raw.write(&of_records, key, &fields);
        tokio::task::block_in_place(|| runtime.block_on(write));
        true
    };
    suite(Handles::new(handles, change)).await;
    let backend = backend_at(port, &prefix, options()).await;
    net.read("a backend", &format!("{backend:?} {:?}", options()));
    locks(&watched(net, backend)).await;

    // An account key that is not the emulator's.
    let wrong = options().with_setting("azure_storage_account_key", "aHVudGVyMg==");
    net.read("options", &format!("{wrong:?}"));
    let url = AzuriteServer::url_at(port, &secret());
    let refused = ObjectStoreBackend::connect_with(&format!("{url}&anonymous=true"), wrong).await;
    net.read("a refused connect", &format!("{refused:?}"));

    // A port without a server.
    let timeout = Duration::from_millis(500);
    let impatient = options().with_operation_timeout(timeout).with_request_timeout(timeout);
    let nobody = format!("az://{CONTAINER}/{}?emulator=127.0.0.1:1", secret());
    let backend = ObjectStoreBackend::connect_with(&nobody, impatient).await.expect("a backend");
    all_fail(&watched(net, backend)).await;
    nothing_was_given_away(&["hyper_util", "reqwest"]).await;
}
