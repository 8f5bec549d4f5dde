//! Starts, uses and breaks the Firestore emulator.

use std::time::Duration;

use anyhow::Result;
use syncguard_test_services::firestore::FirestoreEmulator;

#[test]
fn answers_and_comes_back_on_its_port() -> Result<()> {
    let mut emulator = FirestoreEmulator::start()?;
    let (host_port, pid) = (emulator.host_port(), emulator.pid()?);
    assert_eq!(emulator.get("/")?.trim(), "Ok");
    let documents = "/v1/projects/p/databases/(default)/documents/locks";
    assert_eq!(emulator.get(documents)?, "{\n}\n");

    emulator.kill()?;
    assert!(emulator.get("/").is_err());
    emulator.restart()?;
    assert_eq!(emulator.host_port(), host_port);
    assert_ne!(emulator.pid()?, pid);

    emulator.pause()?;
    assert!(emulator.get_within("/", Duration::from_millis(300)).is_err());
    emulator.resume()?;
    assert_eq!(emulator.get("/")?.trim(), "Ok");
    Ok(())
}
