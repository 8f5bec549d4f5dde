//! Firestore, gcloud-sdk, tonic and their dependencies.

use std::time::Duration;

use syncguard_firestore::FirestoreBackend;
use tokio::runtime::Handle;

use crate::firestore_support::{Raw, backend_with, fresh, options, options_at, text};
use crate::net::Net;
use crate::scenario::{Change, Handles, all_fail, locks, nothing_was_given_away, secret, suite};
use crate::watched::watched;

pub(crate) async fn says_nothing() {
    let net = Net::global();
    let url = fresh();
    // A new emulator takes seconds for its first answers.
    let patience = Duration::from_secs(20);
    let options = || options().with_request_timeout(patience).with_operation_timeout(patience);
    let mut handles = Vec::new();
    for cleanup in [true, false] {
        handles.push(backend_with(&url, options().with_cleanup_in_is_locked(cleanup)).await);
    }
    let (raw, runtime) = (Raw::new(&url), Handle::current());
    let change = move |key: &str, change| {
        let (path, fence) = match change {
            Change::Counter(last) => {
                (format!("fence_counters/fence:{key}"), text(&last.to_string()))
            }
            Change::Spoilt => (format!("locks/{key}"), text("not a fence")),
        };
        let set = raw.set(&path, [("fence", fence), ("key", text(key))]);
        tokio::task::block_in_place(|| runtime.block_on(set));
        true
    };
    suite(Handles::new(handles, change)).await;
    let backend = backend_with(&url, options()).await;
    net.read("a backend", &format!("{backend:?} {:?}", options()));
    locks(&watched(net, backend)).await;

    // A token that is not the administrator's goes out with every request.
    let stranger = Raw::with_token(&url, &secret());
    all_fail(&watched(net, stranger.backend(&url, &options()))).await;

    // A port without a server.
    let timeout = Duration::from_millis(500);
    let impatient = options_at(1).with_operation_timeout(timeout).with_request_timeout(timeout);
    let backend = FirestoreBackend::connect_with(&url, impatient).await.expect("a backend");
    all_fail(&watched(net, backend)).await;
    nothing_was_given_away(&["h2", "hyper", "tonic", "tower", "gcloud_sdk"]).await;
}
