//! Without a driver: only the library's own lines.

use syncguard_memory::MemoryBackend;

use crate::net::Net;
use crate::scenario::{Handles, OWN, alone, locks, nothing_was_given_away, suite};
use crate::watched::watched;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_backend_says_nothing() {
    let net = Net::global();
    let _alone = alone().await;
    suite(Handles::new(vec![MemoryBackend::new()])).await;
    locks(&watched(net, MemoryBackend::new())).await;
    nothing_was_given_away(&OWN).await;
}
