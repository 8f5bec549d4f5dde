//! Firestore, gcloud-sdk, tonic and their dependencies.

use std::time::Duration;

use syncguard_conformance::Harness;
use syncguard_core::{Fence, Key};
use syncguard_firestore::FirestoreBackend;

use crate::firestore_support::{Raw, backend_with, fresh, options, options_at, text};
use crate::net::Net;
use crate::scenario::{Handles, all_fail, alone, locks, nothing_was_given_away, secret, suite};
use crate::watched::watched;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_firestore_backend_says_nothing() {
    let net = Net::global();
    let _alone = alone().await;
    let url = fresh();
    // A new emulator takes seconds for its first answers.
    let patience = Duration::from_secs(20);
    let options = || options().with_request_timeout(patience).with_operation_timeout(patience);
    let mut handles = Vec::new();
    for cleanup in [true, false] {
        handles.push(backend_with(&url, options().with_cleanup_in_is_locked(cleanup)).await);
    }
    suite(Firestore { raw: Raw::new(&url), handles: Handles::new(handles) }).await;
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

struct Firestore {
    raw: Raw,
    handles: Handles<FirestoreBackend>,
}

impl Harness for Firestore {
    type Backend = FirestoreBackend;

    async fn connect(&self) -> FirestoreBackend {
        self.handles.next()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        let path = format!("fence_counters/fence:{}", key.expose());
        self.raw.set(&path, [("fence", text(&last.to_string()))]).await;
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let path = format!("locks/{}", key.expose());
        let fields = [("fence", text("not a fence")), ("key", text(key.expose()))];
        self.raw.set(&path, fields).await;
        true
    }
}
