//! The troubles that a lock of the default TTL outlives.

mod connections;

use anyhow::Result;
use syncguard_firestore::FirestoreOptions;

use crate::field::firestore::backend;
use crate::field::lasting::outlives_troubles_of_connections;
use crate::firestore::support::shared;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_thirty_seconds_outlives_these_troubles() -> Result<()> {
    outlives_troubles_of_connections(shared().port(), async |port, project| {
        backend(&format!("127.0.0.1:{port}"), project, FirestoreOptions::new()).await
    })
    .await
}
