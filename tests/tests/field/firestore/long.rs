//! The troubles that a lock of the default TTL outlives.

mod connections;

use anyhow::Result;
use syncguard_firestore::FirestoreOptions;
use syncguard_test_services::proxy::FaultProxy;

use crate::field::firestore::{backend, shared};
use crate::field::lasting::{
    all_connections_are_silent, connections_are_refused, open_connections_are_silent, outlives,
};

async fn held(
    name: &'static str,
    trouble: impl AsyncFnOnce(&FaultProxy) -> Result<()>,
) -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let address = format!("127.0.0.1:{}", proxy.port());
    let backend = backend(&address, name, FirestoreOptions::new()).await?;
    outlives(&backend, name, async || trouble(&proxy).await).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_thirty_seconds_outlives_these_troubles() -> Result<()> {
    tokio::try_join!(
        held("open-connections-are-silent", open_connections_are_silent),
        held("all-connections-are-silent", all_connections_are_silent),
        held("connections-are-refused", connections_are_refused),
    )?;
    Ok(())
}
