//! Firestore.

mod long;

use std::sync::OnceLock;

use anyhow::Result;
use syncguard_firestore::contract::{ExtendRequest, ReleaseRequest};
use syncguard_firestore::{FirestoreBackend, FirestoreOptions, LockBackend as _};
use syncguard_test_services::firestore::FirestoreEmulator;

use super::{MINUTE, take};

fn shared() -> &'static FirestoreEmulator {
    static EMULATOR: OnceLock<FirestoreEmulator> = OnceLock::new();
    EMULATOR.get_or_init(|| FirestoreEmulator::start().expect("a Firestore emulator"))
}

/// A backend at this address, once the emulator is warm: Java's first answers take seconds on a busy machine.
async fn backend(
    address: &str,
    project: &str,
    options: FirestoreOptions,
) -> Result<FirestoreBackend> {
    let patient = FirestoreOptions::new()
        .with_emulator(shared().host_port())
        .with_request_timeout(MINUTE)
        .with_operation_timeout(MINUTE);
    let warming = FirestoreBackend::connect_with("firestore://warm", patient).await?;
    for number in 0..5 {
        let lock = take(&warming, &format!("{project} {number}")).await?;
        let _ = warming.extend(ExtendRequest::new(lock, MINUTE)?).await?;
        warming.release(ReleaseRequest::new(lock)).await?;
    }
    let options = options.with_emulator(address);
    Ok(FirestoreBackend::connect_with(&format!("firestore://{project}"), options).await?)
}
