//! The emulator of Firestore.

use anyhow::Result;
use syncguard_test_services::firestore::FirestoreEmulator;

use crate::harness::Harness;

/// The URL of an emulator. Its first answers, which can take seconds, are awaited here.
pub(crate) fn emulator_url(server: &FirestoreEmulator) -> Result<String> {
    let url = format!("firestore://cli?emulator={}", server.host_port());
    let patient = format!("{url}&request_timeout_ms=60000&operation_timeout_ms=60000");
    for _ in 0..5 {
        let warm = ["run", "--ttl", "10m", "warm", "--", "true"];
        Harness::at(patient.clone(), None).run(&warm)?.expect(0)?;
    }
    Ok(url)
}
