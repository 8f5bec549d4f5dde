//! Firestore under a name with several addresses.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_firestore::contract::ReleaseRequest;
use syncguard_firestore::{FirestoreOptions, LockBackend as _};
use syncguard_test_services::proxy::FaultProxy;

use crate::firestore::support::{backend_with, shared};
use crate::troubles::silent::Silent;
use crate::troubles::take;

/// A name with two addresses, of which the first takes connections or not even that, and never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_address_of_a_name_is_passed_over() -> Result<()> {
    const SILENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    for takes_connections in [true, false] {
        let proxy = FaultProxy::start(shared().port())?;
        let at = (SILENT, proxy.port());
        let _silent = if takes_connections {
            Silent::after_the_handshake(at).await?
        } else {
            Silent::from_the_first_packet(at).await?
        };
        // Patient with a busy machine; the call that fails takes this long.
        let options = FirestoreOptions::new()
            .with_request_timeout(Duration::from_secs(3))
            .with_emulator(format!("firestore.test:{}", proxy.port()))
            .with_remote_emulator(true)
            .with_name_server(|_| vec![SILENT.into(), Ipv4Addr::LOCALHOST.into()]);
        let url = format!("firestore://addresses-{takes_connections}");
        let ours = backend_with(&url, options).await;
        // Each connection is lost, and the next one begins with another address.
        for _ in 0..3 {
            let mut failures = 0;
            let lock = loop {
                match take(&ours, "key").await {
                    Ok(lock) => break lock,
                    Err(error) => ensure!(failures == 0, "a second call failed: {error:?}"),
                }
                failures += 1;
            };
            ensure!(ours.release(ReleaseRequest::new(lock)).await?.is_released());
            proxy.sever();
        }
    }
    Ok(())
}
