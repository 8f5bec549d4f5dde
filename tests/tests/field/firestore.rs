//! Firestore.

mod long;

use anyhow::Result;
use syncguard_firestore::{FirestoreBackend, FirestoreOptions};

async fn backend(
    address: &str,
    project: &str,
    options: FirestoreOptions,
) -> Result<FirestoreBackend> {
    let options = options.with_emulator(address);
    Ok(FirestoreBackend::connect_with(&format!("firestore://{project}"), options).await?)
}
