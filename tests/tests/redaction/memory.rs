//! Without a driver: only the library's own lines.

use syncguard_core::Key;
use syncguard_memory::MemoryBackend;

use crate::net::Net;
use crate::scenario::{Change, Handles, OWN, locks, nothing_was_given_away, suite};
use crate::watched::watched;

pub(crate) async fn says_nothing() {
    let net = Net::global();
    let backend = MemoryBackend::new();
    let store = backend.clone();
    let change = move |key: &str, change| match change {
        Change::Counter(last) => {
            store.set_fence_counter(&Key::new(key).expect("a key"), last);
            true
        }
        Change::Spoilt => false,
    };
    suite(Handles::new(vec![backend], change)).await;
    locks(&watched(net, MemoryBackend::new())).await;
    nothing_was_given_away(&OWN).await;
}
